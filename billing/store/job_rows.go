package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

const (
	// jobLeft are the jobs that somebody has to do something for, now or when their time
	// is over; jobDue those that are owed. Indexes are made of both.
	jobLeft = "(state < 4 OR cancel <> 0 OR media_type <> '')"
	jobDue  = "owed <> 0 AND back_us = 0"

	jobColumns = "id, kind, model, named, account, api_key, request, node, hold, paid_diem, paid_bundled, paid_usd, " +
		"paid_us, day, back_diem, back_bundled, back_usd, back_us, owed, state, owner, epoch, upstream, target, handle, ord, " +
		"tries, cancel, code, error, suggestion, recommend, detail, media_type, media_bytes, created_us, submitted_us, " +
		"ended_us, expires_us, released_us, links_us, links, poked_us"
	sqlJob = "SELECT " + jobColumns + " FROM job WHERE "
	// Lists leave out what may be large and is seldom asked for.
	sqlAddJob = `INSERT INTO job(id, kind, model, named, account, api_key, request, node, hold, owed, state, owner, epoch,
		upstream, target, handle, ord, tries, cancel, code, error, suggestion, recommend, detail, media_type,
		media_bytes, created_us, submitted_us, ended_us, expires_us)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
		$23, $24, $25, $26, $27, $28, $29, $30) ON CONFLICT DO NOTHING`
	sqlDropJob = `DELETE FROM job WHERE id = $1 AND owner = $2 AND epoch = 1 AND state = 1 AND node = $2 AND hold = $3
		AND paid_us = 0`
	sqlUpdateJob = `UPDATE job SET state = $4, upstream = $5, target = $6, handle = $7, ord = coalesce($8, ord),
		tries = $9, cancel = $10, code = $11, error = $12, detail = coalesce($13, detail), media_type = $14,
		media_bytes = $15, submitted_us = $16, ended_us = $17, expires_us = $18,
		owed = CASE WHEN owed <> 0 THEN 1 ELSE CAST($19 AS {I64}) END, suggestion = $20, recommend = $21
		WHERE id = $1 AND owner = $2 AND epoch = $3 AND (state < 4 OR state = $4) AND state IN (`
)

// sqlJobList is sqlJob without Order and Detail.
var sqlJobList = strings.NewReplacer(" ord,", " NULL,", " detail,", " NULL,").Replace(sqlJob)

func scanJob(scan func(...any) error) (*JobRow, error) {
	r := &JobRow{}
	var request []byte
	var date int64
	var owed, cancel int
	p, b := &r.Paid, &r.Back
	err := scan(&r.ID, &r.Kind, &r.Model, &r.Named, &r.Account, &r.Key, &request, &r.Node, &r.Hold,
		&p[money.InDIEM], &p[money.InBundled], &p[money.InUSD], &r.PaidUs, &date,
		&b[money.InDIEM], &b[money.InBundled], &b[money.InUSD], &r.BackUs, &owed, &r.State, &r.Owner, &r.Epoch,
		&r.Upstream, &r.Target, &r.Handle, &r.Order, &r.Tries, &cancel, &r.Code, &r.Error,
		&r.Suggestion, &r.Recommend, &r.Detail, &r.MediaType, &r.MediaBytes, &r.CreatedUs, &r.SubmittedUs, &r.EndedUs,
		&r.ExpiresUs, &r.ReleasedUs, &r.LinksUs, &r.Links, &r.PokedUs)
	copy(r.Request[:], request)
	r.Owed, r.Cancel = owed != 0, cancel != 0
	if date != 0 {
		r.Day = calendar.DayOfDate(date)
	}
	return r, noRow(err)
}

func (q *Query) jobs(text string, args ...any) (all []*JobRow, err error) {
	err = q.Each(func(rows *sql.Rows) error {
		r, err := scanJob(rows.Scan)
		all = append(all, r)
		return err
	}, text, args...)
	return all, err
}

func (s *sqlStore) jobs(text string, args ...any) ([]*JobRow, error) {
	return ask(s, func(q *Query) ([]*JobRow, error) { return q.jobs(text, args...) })
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// insertJob adds a row unless it, or something in its place, is there.
func (t *tx) insertJob(r *JobRow, request []byte) (done bool, err error) {
	res, err := t.exec(sqlAddJob, r.ID, r.Kind, r.Model, r.Named, r.Account, r.Key, request, r.Node, r.Hold,
		flag(r.Owed), int64(r.State), r.Owner, r.Epoch, r.Upstream, r.Target, r.Handle, r.Order, r.Tries, flag(r.Cancel),
		r.Code, r.Error, r.Suggestion, r.Recommend, r.Detail, r.MediaType, r.MediaBytes, r.CreatedUs, r.SubmittedUs,
		r.EndedUs, r.ExpiresUs)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func (s *sqlStore) AddJob(r *JobRow, sinceUs int64) (existing *JobRow, err error) {
	if r.ID == "" || r.State != JobSubmitting || r.Epoch != 1 {
		return nil, fmt.Errorf("cannot add the job %q in state %d of owner number %d", r.ID, r.State, r.Epoch)
	}
	var request []byte
	if r.Request != ([16]byte{}) {
		request = r.Request[:]
	}
	err = s.write(func(t *tx) error {
		existing = nil
		// Somebody may have added one in between: then it is found the next time.
		for range 3 {
			done, err := t.insertJob(r, request)
			if done || err != nil {
				return err
			}
			found, err := scanJob(t.Row(sqlJob+"account = $1 AND request = $2", r.Account, request).Scan)
			switch {
			case errors.Is(err, ErrNoRow):
				found, err = scanJob(t.Row(sqlJob+"id = $1", r.ID).Scan)
				if errors.Is(err, ErrNoRow) {
					continue
				}
				if err == nil && (found.Node != r.Node || found.Hold != r.Hold) {
					return ErrExists
				}
				return err
			case err != nil:
				return err
			case found.ID == r.ID:
				return nil
			case found.CreatedUs >= sinceUs:
				existing = found
				return nil
			}
			if _, err := t.exec("UPDATE job SET request = NULL WHERE id = $1", found.ID); err != nil {
				return err
			}
		}
		return ErrExists
	})
	if err != nil {
		existing = nil
	}
	return existing, err
}

func (s *sqlStore) DropJob(r *JobRow) (gone bool, err error) {
	err = s.write(func(t *tx) error {
		// An AddJob whose answer was lost may be about to commit. It holds its id until
		// then, so that who adds the same id waits for it, and comes after it.
		if _, err := t.insertJob(r, nil); err != nil {
			return err
		}
		if _, err := t.exec(sqlDropJob, r.ID, r.Owner, r.Hold); err != nil {
			return err
		}
		var left int
		err := t.Row("SELECT count(*) FROM job WHERE id = $1", r.ID).Scan(&left)
		gone = left == 0
		return err
	})
	return gone && err == nil, err
}

func (s *sqlStore) Job(id string) (*JobRow, error) {
	return ask(s, func(q *Query) (*JobRow, error) { return scanJob(q.Row(sqlJob+"id = $1", id).Scan) })
}

func (s *sqlStore) JobsOf(owner uint32) ([]*JobRow, error) {
	return s.jobs(sqlJobList+"owner = $1 AND "+jobLeft+
		" AND (state < 4 OR cancel <> 0 OR released_us > 0) ORDER BY created_us, id", owner)
}

func (s *sqlStore) UpdateJob(r *JobRow, from ...JobState) (ok bool, err error) {
	states := make([]string, len(from))
	for i, state := range from {
		states[i] = strconv.Itoa(int(state))
	}
	if len(states) == 0 {
		return false, errors.New("cannot change a job from no state")
	}
	text := sqlUpdateJob + strings.Join(states, ", ") + ") RETURNING released_us"
	err = s.write(func(t *tx) error {
		ok = false
		err := t.Row(text, r.ID, r.Owner, r.Epoch, int64(r.State), r.Upstream, r.Target, r.Handle, r.Order, r.Tries,
			flag(r.Cancel), r.Code, r.Error, r.Detail, r.MediaType, r.MediaBytes, r.SubmittedUs, r.EndedUs, r.ExpiresUs,
			flag(r.Owed), r.Suggestion, r.Recommend).Scan(&r.ReleasedUs)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		ok = err == nil
		return err
	})
	return ok && err == nil, err
}

// affect runs a statement by itself and says how many rows it changed.
func (s *sqlStore) affect(text string, args ...any) (n int, err error) {
	err = s.write(func(t *tx) error {
		res, err := t.exec(text, args...)
		if err != nil {
			return err
		}
		rows, err := res.RowsAffected()
		n = int(rows)
		return err
	})
	return n, err
}

func (s *sqlStore) ReleaseJob(id string, nowUs int64) (ok bool, err error) {
	more := ""
	if s.shared {
		more = ", poked_us = $2" // its owner may be another node
	}
	n, err := s.affect("UPDATE job SET released_us = $2"+more+" WHERE id = $1 AND released_us = 0", id, nowUs)
	return n > 0, err
}

func (s *sqlStore) PokeJob(id string, nowUs int64) error {
	_, err := s.affect("UPDATE job SET poked_us = $2 WHERE id = $1 AND poked_us = 0", id, nowUs)
	return err
}

// mostPoked is how many jobs an owner is told of at a time.
const mostPoked = 1000

func (s *sqlStore) PokedJobs(owner uint32) ([]*JobRow, error) {
	list, err := s.jobs(sqlJobList+"owner = $1 AND poked_us > 0 LIMIT $2", owner, mostPoked)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	err = s.write(func(t *tx) error {
		for _, r := range list {
			if _, err := t.exec("UPDATE job SET poked_us = 0 WHERE id = $1 AND poked_us = $2", r.ID, r.PokedUs); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func (s *sqlStore) RevokeLinks(id string, nowUs int64) (ok bool, err error) {
	n, err := s.affect("UPDATE job SET links_us = $2 WHERE id = $1 AND links_us = 0", id, nowUs)
	return n > 0, err
}

func (s *sqlStore) UseLinks(id string, use func(links []byte, alive func(node uint32) bool) LinkUse) error {
	return s.write(func(t *tx) error {
		r, err := scanJob(t.Row(sqlJob+"id = $1 {LOCK}", id).Scan)
		if err != nil || r.LinksUs != 0 {
			return err
		}
		var failed error
		alive := func(node uint32) bool {
			if !s.shared {
				return false // this process is the only one
			}
			var n int
			err := t.Row("SELECT count(*) FROM node WHERE no = $1 AND ended = 0 AND expires_us > {NOW}", node).Scan(&n)
			failed = errors.Join(failed, err)
			return n > 0
		}
		u := use(r.Links, alive)
		if failed != nil || u.Links == nil && u.EndUs == 0 {
			return failed
		}
		_, err = t.exec("UPDATE job SET links = coalesce($2, links), links_us = $3 WHERE id = $1", id, u.Links, u.EndUs)
		return err
	})
}

func (s *sqlStore) TakeJobs(owner uint32, own bool) (int, error) {
	of := "owner <> $1"
	if s.shared {
		of += " AND NOT EXISTS(SELECT 1 FROM node n WHERE n.no = job.owner AND n.ended = 0 AND n.expires_us > {NOW})"
	}
	if own {
		of = "(owner = $1 OR " + of + ")"
	}
	return s.affect("UPDATE job SET owner = $1, epoch = epoch + 1 WHERE "+jobLeft+" AND "+of, owner)
}

func (s *sqlStore) JobCounts(account uint32) (c JobCounts, err error) {
	return ask(s, func(q *Query) (c JobCounts, err error) {
		err = q.Row(`SELECT CAST(coalesce(sum(CASE WHEN account = $1 AND state < 4 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN state < 4 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN account = $1 AND media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64})
			FROM job WHERE `+jobLeft, account).Scan(&c.Waiting, &c.AllWaiting, &c.Bytes, &c.AllBytes)
		return c, err
	})
}

func (s *sqlStore) JobTally(owner uint32) ([]JobTally, error) {
	return ask(s, func(q *Query) ([]JobTally, error) {
		return list(q, func(t *JobTally) []any { return []any{&t.Account, &t.Waiting, &t.Bytes} },
			`SELECT account, CAST(coalesce(sum(CASE WHEN state < 4 AND owner <> $1 THEN 1 ELSE 0 END), 0) AS {I64}),
			CAST(coalesce(sum(CASE WHEN media_type <> '' THEN media_bytes ELSE 0 END), 0) AS {I64})
			FROM job WHERE `+jobLeft+" GROUP BY account ORDER BY account", owner)
	})
}

func (s *sqlStore) FinishedTimes(model string, n int) ([]time.Duration, error) {
	return ask(s, func(q *Query) ([]time.Duration, error) {
		times, err := list(q, func(us *int64) []any { return []any{us} }, `SELECT ended_us - CASE WHEN submitted_us > 0
			THEN submitted_us ELSE created_us END FROM job WHERE model = $1 AND state = 4
			ORDER BY ended_us DESC LIMIT $2`, model, n)
		all := make([]time.Duration, len(times))
		for i, us := range times {
			all[i] = time.Duration(us) * time.Microsecond
		}
		return all, err
	})
}

func (s *sqlStore) ExpiredJobs(owner uint32, nowUs int64, most int) ([]*JobRow, error) {
	return s.jobs(sqlJobList+"owner = $1 AND "+jobLeft+" AND state >= 4 AND media_type <> '' AND expires_us > 0 "+
		"AND expires_us <= $2 ORDER BY expires_us, id LIMIT $3", owner, nowUs, most)
}

func (s *sqlStore) PurgeJobs(beforeUs int64, most int) (int, error) {
	return s.affect(`DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state >= 4 AND ended_us < $1 AND paid_us > 0
		AND (owed = 0 OR back_us > 0) AND media_type = '' AND cancel = 0 ORDER BY ended_us LIMIT $2)`, beforeUs, most)
}

func (s *sqlStore) Jobs(account uint32, behind JobPlace, most int) ([]*JobRow, error) {
	if behind == (JobPlace{}) {
		behind.CreatedUs = math.MaxInt64
	}
	text, args := "created_us <= $1 AND (created_us < $1 OR id < $2)", []any{behind.CreatedUs, behind.ID, most}
	if account != 0 { // so that it is found by job_account
		text, args = text+" AND account = $4", append(args, account)
	}
	return s.jobs(sqlJobList+text+" ORDER BY created_us DESC, id DESC LIMIT $3", args...)
}
