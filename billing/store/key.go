package store

import (
	"database/sql"
	"errors"
	"maps"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// AddKey makes a key, unless the account has as many live ones as it may. One
// with the same id is this one: the answer to an earlier try was lost.
func (s *sqlStore) AddKey(r *KeyRow, mostActive int) error {
	return s.write(func(t *tx) error {
		err := t.Row("SELECT no FROM api_key WHERE id = $1", r.ID).Scan(&r.No)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		// The account's row is what two that count at the same time wait on.
		if err := t.Row("SELECT no FROM account WHERE no = $1 {LOCK}", r.Account).Scan(&r.Account); err != nil {
			return noRow(err)
		}
		var active int
		if err := t.Row("SELECT count(*) FROM api_key WHERE account = $1 AND type <> 3 AND revoked_us = 0 AND "+
			"(expires_us = 0 OR expires_us > $2)", r.Account, r.CreatedUs).Scan(&active); err != nil {
			return err
		}
		if active >= mostActive {
			return ErrManyKeys
		}
		r.Version, r.Privacy = 1, max(r.Privacy, AnyModel)
		t.change(ChangeKey, r.Account, 0)
		return t.insertKey(r, "")
	})
}

// insertKey writes the row of a new key, whose number it gives.
func (t *tx) insertKey(r *KeyRow, conflict string) error {
	return t.Row(`INSERT INTO api_key(id, account, type, secret_mac, last6, description, limit_period, limit_usd, limit_diem,
		created_us, expires_us, revoked_us, limit_text_usd, limit_text_diem, privacy)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $14)`+conflict+` RETURNING no`,
		r.ID, r.Account, int64(r.Type), r.Digest[:], r.Last6, r.Description, int64(r.Period), nullable(r.LimitUSD),
		nullable(r.LimitDIEM),
		r.CreatedUs, r.ExpiresUs, r.LimitTextUSD, r.LimitTextDIEM, int64(r.Privacy)).Scan(&r.No)
}

func nullable(n *money.Nano) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: int64(*n), Valid: true}
}

const selectKeys = `SELECT k.no, k.id, k.account, a.id, a.name, k.type, k.secret_mac, k.last6, k.description, k.limit_period, k.limit_usd, k.limit_diem,
  k.created_us, k.expires_us, k.revoked_us, k.limit_text_usd, k.limit_text_diem, k.privacy, k.version, k.last_used_us
  FROM api_key k JOIN account a ON a.no = k.account `

const sqlKeyByDigest = selectKeys + "WHERE k.secret_mac = $1"

func scanKey(scan func(...any) error) (*KeyRow, error) {
	r := &KeyRow{}
	var mac []byte
	err := scan(&r.No, &r.ID, &r.Account, &r.AccountID, &r.AccountName, &r.Type, &mac, &r.Last6, &r.Description,
		&r.Period, &r.LimitUSD, &r.LimitDIEM, &r.CreatedUs, &r.ExpiresUs, &r.RevokedUs,
		&r.LimitTextUSD, &r.LimitTextDIEM, &r.Privacy, &r.Version, &r.LastUsedUs)
	copy(r.Digest[:], mac)
	return r, noRow(err)
}

func (s *sqlStore) KeyByDigest(d Digest) (*KeyRow, error) {
	return ask(s, func(q *Query) (*KeyRow, error) { return scanKey(q.Row(sqlKeyByDigest, d[:]).Scan) })
}

func (s *sqlStore) KeyByID(id string) (*KeyRow, error) {
	return ask(s, func(q *Query) (*KeyRow, error) { return scanKey(q.Row(selectKeys+"WHERE k.id = $1", id).Scan) })
}

func (s *sqlStore) Keys(account uint32) ([]*KeyRow, error) {
	if account == 0 {
		return s.keys("ORDER BY k.no")
	}
	return s.keys("WHERE k.account = $1 ORDER BY k.no", account)
}

func (s *sqlStore) ActiveKeys(account uint32, nowUs int64, limit, offset int) ([]*KeyRow, error) {
	return s.keys("WHERE k.account = $1 AND k.type <> 3 AND k.revoked_us = 0 AND (k.expires_us = 0 OR k.expires_us > $2) ORDER BY "+
		"k.no LIMIT $3 OFFSET $4",
		account, nowUs, limit, offset)
}

func (s *sqlStore) keys(where string, args ...any) (list []*KeyRow, err error) {
	err = s.read(func(q *Query) error {
		list = nil
		return q.Each(func(rows *sql.Rows) error {
			r, err := scanKey(rows.Scan)
			list = append(list, r)
			return err
		}, selectKeys+where, args...)
	})
	return list, err
}

func (s *sqlStore) KeysMade(account uint32, sinceUs int64) (n int, firstUs int64, err error) {
	err = s.read(func(q *Query) error {
		return q.Row("SELECT count(*), coalesce(min(created_us), 0) FROM api_key WHERE account = $1 AND "+
			"type <> 3 AND created_us >= $2", account, sinceUs).Scan(&n, &firstUs)
	})
	return n, firstUs, err
}

func (s *sqlStore) RevokeKey(no, nowUs int64) error {
	return s.write(func(t *tx) error {
		var account uint32
		err := t.Row("UPDATE api_key SET revoked_us = $2, version = version + 1 WHERE no = $1 AND revoked_us = 0 "+
			"RETURNING account", no, nowUs).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		t.change(ChangeKey, account, no)
		return err
	})
}

// UpdateKey writes what the owner of a key may change, unless somebody else
// has changed it since row was read. When only the answer was lost, the next
// try finds its own change and says that, too.
func (s *sqlStore) UpdateKey(r *KeyRow) error {
	err := s.write(func(t *tx) error {
		var account uint32
		err := t.Row(`UPDATE api_key SET description = $2, limit_period = $3, limit_usd = $4, limit_diem = $5, limit_text_usd = $6, limit_text_diem = $7,
			expires_us = $8, privacy = $9, version = version + 1 WHERE no = $1 AND version = $10 AND revoked_us = 0 RETURNING account`,
			r.No, r.Description, int64(r.Period), nullable(r.LimitUSD), nullable(r.LimitDIEM), r.LimitTextUSD,
			r.LimitTextDIEM,
			r.ExpiresUs, int64(max(r.Privacy, AnyModel)), r.Version).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrStale
		}
		t.change(ChangeKey, account, r.No)
		return err
	})
	if err == nil {
		r.Version++
	}
	return err
}

func (s *sqlStore) TouchKeys(lastUs map[int64]int64) error {
	if len(lastUs) == 0 {
		return nil
	}
	return s.write(func(t *tx) error {
		b := t.bulk("UPDATE api_key SET last_used_us = u.used FROM {FROM no i, used i} WHERE api_key.no = u.no AND " +
			"last_used_us < u.used")
		for _, no := range slices.Sorted(maps.Keys(lastUs)) {
			b.add(no, lastUs[no])
		}
		return b.flush()
	})
}

const sumAmounts = "CAST(sum(amount) AS {I64})"

// usedDays is what keys have used by day: their usage, without what failed jobs gave
// back of it.
const usedDays = `(SELECT account, api_key, day, currency, requests, amount FROM usage_day
	UNION ALL SELECT account, api_key, day, currency, 0, -amount FROM key_back) AS d`

// KeyUsed is what a key has spent in the period that day lies in.
func (s *sqlStore) KeyUsed(account uint32, key int64, p Period, day int32) (used money.Parts, err error) {
	first, last := p.Days(day)
	from, to := int64(0), int64(99999999)
	if p != Lifetime {
		from, to = calendar.Date(first), calendar.Date(last)
	}
	return ask(s, func(q *Query) (money.Parts, error) { return q.keyUsed(account, key, from, to) })
}

func (s *sqlStore) KeyUsedLater(account uint32, key int64, day int32) (days map[int32]money.Parts, err error) {
	err = s.read(func(q *Query) error {
		days = nil
		return q.Each(func(rows *sql.Rows) error {
			var date int64
			var c money.Currency
			var sum money.Nano
			err := rows.Scan(&date, &c, &sum)
			if days == nil {
				days = map[int32]money.Parts{}
			}
			used := days[calendar.DayOfDate(date)]
			used[money.PlaceOf(c)] += sum
			days[calendar.DayOfDate(date)] = used
			return err
		}, "SELECT day, currency, "+sumAmounts+" FROM "+usedDays+`
			WHERE account = $1 AND api_key = $2 AND day > $3 GROUP BY day, currency`, account, key, calendar.Date(day))
	})
	return days, err
}

// keyUsed adds up the dates from and to included.
func (q *Query) keyUsed(account uint32, key, from, to int64) (used money.Parts, err error) {
	err = q.Each(func(rows *sql.Rows) error {
		var c money.Currency
		var sum money.Nano
		err := rows.Scan(&c, &sum)
		used[money.PlaceOf(c)] = sum
		return err
	}, "SELECT currency, "+sumAmounts+" FROM "+usedDays+`
		WHERE account = $1 AND api_key = $2 AND day BETWEEN $3 AND $4 GROUP BY currency`, account, key, from, to)
	return used, err
}

func (s *sqlStore) KeySums(account uint32, first, last int32) (sums map[int64]KeySum, err error) {
	err = s.read(func(q *Query) error {
		sums = map[int64]KeySum{}
		return q.Each(func(rows *sql.Rows) error {
			var key, requests int64
			var c money.Currency
			var sum money.Nano
			err := rows.Scan(&key, &c, &requests, &sum)
			k := sums[key]
			k.Requests += requests
			k.Spent[money.PlaceOf(c)] += sum
			sums[key] = k
			return err
		}, "SELECT api_key, currency, CAST(sum(requests) AS {I64}), "+sumAmounts+" FROM "+usedDays+`
			WHERE account = $1 AND day BETWEEN $2 AND $3 GROUP BY api_key, currency`, account, calendar.Date(first),
			calendar.Date(last))
	})
	return sums, err
}

func (s *sqlStore) AddViolations(list []Violation) error {
	if len(list) == 0 {
		return nil
	}
	return s.write(func(t *tx) error {
		accounts := map[uint32]bool{}
		b := t.bulk("INSERT INTO violation(account, at_us, api_key, model, tier, kind) {ROWS iiittt}")
		for i := range list {
			v := &list[i]
			accounts[v.Account] = true
			b.add(v.Account, v.TimeUs, v.Key, v.Model, v.Tier, v.Kind)
		}
		if err := b.flush(); err != nil {
			return err
		}
		for _, account := range slices.Sorted(maps.Keys(accounts)) {
			if _, err := t.exec(`DELETE FROM violation WHERE account = $1 AND no <=
				(SELECT no FROM violation WHERE account = $1 ORDER BY no DESC LIMIT 1 OFFSET $2)`, account,
				MaxViolations); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlStore) Violations(account uint32) ([]Violation, error) {
	return ask(s, func(q *Query) ([]Violation, error) {
		return list(q, func(v *Violation) []any {
			v.Account = account
			return []any{&v.TimeUs, &v.Key, &v.KeyID, &v.Model, &v.Tier, &v.Kind}
		}, `SELECT v.at_us, v.api_key, coalesce(k.id, ''), v.model, v.tier, v.kind
			FROM violation v LEFT JOIN api_key k ON k.no = v.api_key
			WHERE v.account = $1 ORDER BY v.no DESC LIMIT $2`, account, MaxViolations)
	})
}

// UseToken records the use of a single-use token. When only the answer was
// lost, the token counts as used.
func (s *sqlStore) UseToken(id string, expiresUs, nowUs int64) (fresh bool, err error) {
	err = s.write(func(t *tx) error {
		if _, err := t.exec("DELETE FROM token WHERE expires_us < $1", nowUs); err != nil {
			return err
		}
		res, err := t.exec("INSERT INTO token(id, expires_us) VALUES($1, $2) ON CONFLICT(id) DO NOTHING", id, expiresUs)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		fresh = n == 1
		return err
	})
	return fresh && err == nil, err
}

func (s *sqlStore) AddModel(id string) (no uint32, err error) {
	err = s.write(func(t *tx) error {
		find := func() error { return t.Row("SELECT no FROM model WHERE id = $1", id).Scan(&no) }
		if err := find(); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := t.alone(); err != nil {
			return err
		}
		if err := find(); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return t.Row("INSERT INTO model(no, id) SELECT coalesce(max(no), 0) + 1, CAST($1 AS TEXT) FROM model "+
			"RETURNING no", id).Scan(&no)
	})
	return no, err
}

func (s *sqlStore) Models() (map[uint32]string, error) { return ask(s, (*Query).Models) }

// Models gives all models by number.
func (q *Query) Models() (map[uint32]string, error) {
	models := map[uint32]string{}
	return models, q.Each(func(rows *sql.Rows) error {
		var no uint32
		var id string
		err := rows.Scan(&no, &id)
		models[no] = id
		return err
	}, "SELECT no, id FROM model")
}
