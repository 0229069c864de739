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
		return t.addKey(r, mostActive)
	})
}

func (t *tx) addKey(r *KeyRow, mostActive int) error {
	// Two that count at the same time wait for each other on the account's row.
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
	return t.Row(addKey.text, addKey.args(r)...).Scan(&r.No)
}

// RotateKey makes a key that takes the place of another one, which ends at endsUs or when it
// ends anyway, or is revoked now where endsUs is not after nowUs.
func (s *sqlStore) RotateKey(old, next *KeyRow, endsUs, nowUs int64, mostActive int) error {
	return s.write(func(t *tx) error {
		text := "UPDATE api_key SET expires_us = $2, version = version + 1 WHERE no = $1 AND revoked_us = 0 AND (expires_us = 0 OR expires_us > $2)"
		if endsUs <= nowUs {
			text = "UPDATE api_key SET revoked_us = $2, version = version + 1 WHERE no = $1 AND revoked_us = 0"
		}
		if _, err := t.exec(text, old.No, endsUs); err != nil {
			return err
		}
		t.change(ChangeKey, old.Account, old.No)
		return t.addKey(next, mostActive)
	})
}

var (
	keys         = newTable[KeyRow]("api_key k JOIN account a ON a.no = k.account")
	addKey       = keys.statement("INSERT INTO api_key{INSERT} RETURNING no")
	addWalletKey = keys.statement("INSERT INTO api_key{INSERT} ON CONFLICT(secret_mac) DO NOTHING RETURNING no")
	updateKey    = keys.statement(`UPDATE api_key SET {SET description, limit_period, limit_usd, limit_diem, limit_text_usd,
		limit_text_diem, expires_us, privacy}, version = version + 1
		WHERE no = :no AND version = :version AND revoked_us = 0 RETURNING account`)
	byDigest = "k.secret_mac = $1"
)

func (s *sqlStore) KeyByDigest(d Digest) (*KeyRow, error) { return keys.find(s, byDigest, d[:]) }

// Key gives a key as the transaction sees it.
func (q *Query) Key(id string) (*KeyRow, error) { return keys.one(q, "k.id = $1", id) }

func (s *sqlStore) KeyByID(id string) (*KeyRow, error) { return keys.find(s, "k.id = $1", id) }

func (s *sqlStore) Keys(account uint32) ([]*KeyRow, error) {
	if account == 0 {
		return keys.list(s, "true ORDER BY k.no")
	}
	return keys.list(s, "k.account = $1 ORDER BY k.no", account)
}

func (s *sqlStore) ActiveKeys(account uint32, nowUs int64, limit, offset int) ([]*KeyRow, error) {
	return keys.list(s, `k.account = $1 AND k.type <> 3 AND k.revoked_us = 0 AND (k.expires_us = 0 OR k.expires_us > $2)
		ORDER BY k.no LIMIT $3 OFFSET $4`, account, nowUs, limit, offset)
}

func (s *sqlStore) KeysMade(account uint32, sinceUs int64) (n int, firstUs int64, err error) {
	err = s.read(func(q *Query) error {
		return q.Row("SELECT count(*), coalesce(min(created_us), 0) FROM api_key WHERE account = $1 AND "+
			"type <> 3 AND created_us >= $2", account, sinceUs).Scan(&n, &firstUs)
	})
	return n, firstUs, err
}

func (s *sqlStore) RevokeKey(number, nowUs int64) error {
	return s.write(func(t *tx) error {
		var account uint32
		err := t.Row("UPDATE api_key SET revoked_us = $2, version = version + 1 WHERE no = $1 AND revoked_us = 0 "+
			"RETURNING account", number, nowUs).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		t.change(ChangeKey, account, number)
		return err
	})
}

// UpdateKey writes the columns that the owner of a key may change, unless another call
// has changed the key since row was read. When only the answer was lost, the next
// try finds its own change and says that, too.
func (s *sqlStore) UpdateKey(r *KeyRow) error {
	changed := *r
	changed.Privacy = max(r.Privacy, AnyModel)
	err := s.write(func(t *tx) error {
		var account uint32
		err := t.Row(updateKey.text, updateKey.args(&changed)...).Scan(&account)
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
		for _, number := range slices.Sorted(maps.Keys(lastUs)) {
			b.add(number, lastUs[number])
		}
		return b.flush()
	})
}

const sumAmounts = "CAST(sum(amount) AS {I64})"

// usedDays is the use of keys by day: their usage, less the refunds of failed jobs
// in it.
const usedDays = `(SELECT account, api_key, day, currency, requests, amount FROM usage_day
	UNION ALL SELECT account, api_key, day, currency, 0, -amount FROM key_back) AS d`

// KeyUsed is the spending of a key in the period of a day.
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
		return each3(q, func(date int64, c money.Currency, sum money.Nano) {
			if days == nil {
				days = map[int32]money.Parts{}
			}
			used := days[calendar.DayOfDate(date)]
			used[money.PlaceOf(c)] += sum
			days[calendar.DayOfDate(date)] = used
		}, "SELECT day, currency, "+sumAmounts+" FROM "+usedDays+`
			WHERE account = $1 AND api_key = $2 AND day > $3 GROUP BY day, currency`, account, key, calendar.Date(day))
	})
	return days, err
}

// keyUsed adds up the use of a key from one date to another, both included.
func (q *Query) keyUsed(account uint32, key, from, to int64) (used money.Parts, err error) {
	err = each2(q, func(c money.Currency, sum money.Nano) {
		used[money.PlaceOf(c)] = sum
	}, "SELECT currency, "+sumAmounts+" FROM "+usedDays+`
		WHERE account = $1 AND api_key = $2 AND day BETWEEN $3 AND $4 GROUP BY currency`, account, key, from, to)
	return used, err
}

func (s *sqlStore) KeySums(account uint32, first, last int32) (sums map[int64]KeySum, err error) {
	err = s.read(func(q *Query) error {
		sums = map[int64]KeySum{}
		return each4(q, func(key int64, c money.Currency, requests int64, sum money.Nano) {
			k := sums[key]
			k.Requests += requests
			k.Spent[money.PlaceOf(c)] += sum
			sums[key] = k
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
		n, err := t.affect("INSERT INTO token(id, expires_us) VALUES($1, $2) ON CONFLICT(id) DO NOTHING", id, expiresUs)
		fresh = n == 1
		return err
	})
	return fresh && err == nil, err
}
