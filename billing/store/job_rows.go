package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// jobLeft are the jobs that somebody has to do something for, now or when their time
	// is over; jobDue those that are owed. Indexes are made of both.
	jobLeft = "(state < 4 OR cancel <> 0 OR media_type <> '')"
	jobDue  = "owed <> 0 AND back_us = 0"
)

var (
	jobs   = newTable[JobRow]("job")
	addJob = jobs.statement("INSERT INTO job{INSERT} ON CONFLICT DO NOTHING")
	// dropJob removes a job as its first owner added it.
	dropJob = jobs.statement(`DELETE FROM job WHERE id = :id AND owner = :owner AND epoch = 1 AND state = 1
		AND node = :owner AND hold = :hold AND paid_us = 0`)
	updateJob = jobs.statement(`UPDATE job SET {SET state, upstream, target, handle, tries, cancel, code, error, suggestion,
		recommend, media_type, media_bytes, submitted_us, ended_us, expires_us}, ord = coalesce(:ord, ord),
		detail = coalesce(:detail, detail), owed = CASE WHEN owed <> 0 THEN 1 ELSE CAST(:owed AS {I64}) END
		WHERE id = :id AND owner = :owner AND epoch = :epoch AND (state < 4 OR state = :state) AND state IN (`)
)

func (s *sqlStore) AddJob(r *JobRow, sinceUs int64) (existing *JobRow, err error) {
	if r.ID == "" || r.State != JobSubmitting || r.Epoch != 1 {
		return nil, fmt.Errorf("cannot add the job %q in state %d of owner number %d", r.ID, r.State, r.Epoch)
	}
	err = s.write(func(t *tx) error {
		existing = nil
		// Somebody may have added one in between: then it is found the next time.
		for range 3 {
			n, err := addJob.exec(t, r)
			if n > 0 || err != nil {
				return err
			}
			found, err := jobs.one(&t.Query, "account = $1 AND request = $2", r.Account, r.Request[:])
			switch {
			case errors.Is(err, ErrNoRow):
				found, err = jobs.one(&t.Query, "id = $1", r.ID)
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
		added := *r
		added.Request = [16]byte{}
		if _, err := addJob.exec(t, &added); err != nil {
			return err
		}
		if _, err := dropJob.exec(t, r); err != nil {
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
	return jobs.find(s, "id = $1", id)
}

func (s *sqlStore) JobsOf(owner uint32) ([]*JobRow, error) {
	return jobs.list(s, "owner = $1 AND "+jobLeft+
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
	text := updateJob.text + strings.Join(states, ", ") + ") RETURNING released_us"
	err = s.write(func(t *tx) error {
		ok = false
		err := t.Row(text, updateJob.args(r)...).Scan(&r.ReleasedUs)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		ok = err == nil
		return err
	})
	return ok && err == nil, err
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
	list, err := jobs.list(s, "owner = $1 AND poked_us > 0 LIMIT $2", owner, mostPoked)
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
		r, err := jobs.one(&t.Query, "id = $1 {LOCK}", id)
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
	return jobs.list(s, "owner = $1 AND "+jobLeft+" AND state >= 4 AND media_type <> '' AND expires_us > 0 "+
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
	return jobs.list(s, text+" ORDER BY created_us DESC, id DESC LIMIT $3", args...)
}
