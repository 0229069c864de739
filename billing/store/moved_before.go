package store

import (
	"strings"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Upgrade of stores from before version 11: movements get their numbers, and
// refunds, payments of debt and waived charges the requests that they were for.

// numberMoved brings the postings to customers into order and says why entries were made.
var numberMoved = []string{`
INSERT INTO posting(entry, book, account, currency, amount, moved)
	SELECT p.entry, 'customer', p.account, 1, 0, CASE WHEN e.kind = 'CHARGE' THEN 0 ELSE 1 END FROM posting p JOIN entry e ON e.id = p.entry
	WHERE p.book = 'debt' AND p.amount < 0 AND NOT EXISTS(SELECT 1 FROM posting c
		WHERE c.entry = p.entry AND c.book = 'customer' AND c.account = p.account AND c.currency = 1)`, `
UPDATE posting SET no = n.no, balance_after = n.balance FROM (
	SELECT entry, account, currency, row_number() OVER (PARTITION BY account, currency ORDER BY entry) AS no,
	CAST(sum(amount) OVER (PARTITION BY account, currency ORDER BY entry) AS {I64}) AS balance FROM posting WHERE book = 'customer') AS n
	WHERE posting.book = 'customer' AND posting.entry = n.entry AND posting.account = n.account AND posting.currency = n.currency`,
	postingNo, `
INSERT INTO account_sum(account, currency, postings, balance)
	SELECT account, currency, count(*), CAST(sum(amount) AS {I64}) FROM posting WHERE book = 'customer' GROUP BY account, currency`, `
UPDATE entry SET reason = memo, memo = '' WHERE kind = 'ADJUST'`, `
UPDATE entry SET reason = CASE WHEN kind = 'GRANT' THEN 'the allowance of a day' WHEN kind = 'EXPIRE' THEN 'left of the allowance of a day'
	WHEN kind = 'DEBT' THEN 'debt of earlier requests is paid first' WHEN kind = 'TOP_UP' THEN 'a wallet has paid' ELSE 'the job was not done' END
	WHERE kind IN ('GRANT', 'EXPIRE', 'DEBT') OR kind = 'TOP_UP' AND ref LIKE 'payment:%' OR kind = 'REFUND' AND ref LIKE 'job:%'`,
}

// movedBefore is an entry of before version 11 that counts as consumption, or from which
// debt has come.
type movedBefore struct {
	id, tsUs    int64
	kind, memo  string
	ref         string
	node        uint32
	first, last uint64
}

const sqlMovedBefore = `SELECT e.id, e.ts_us, e.kind, e.memo, coalesce(e.ref, ''), coalesce(e.node, 0), coalesce(e.seq_first, 0), coalesce(e.seq_last, 0) FROM entry e
	WHERE e.id > $1 AND (e.kind IN ('REFUND', 'DEBT') OR EXISTS(SELECT 1 FROM posting p WHERE p.entry = e.id AND p.book IN ('debt', 'late')))
	ORDER BY e.id LIMIT 512`

// numberPostings is the step to version 11.
func (t *tx) numberPostings() error {
	for _, text := range numberMoved {
		if _, err := t.Exec(t.s.dialect.words.Replace(text)); err != nil {
			return err
		}
	}
	var err error
	if t.s.before, err = t.loadBefore(); err != nil {
		return err
	}
	for after := int64(0); ; {
		entries, err := list(&t.Query, func(e *movedBefore) []any {
			return []any{&e.id, &e.tsUs, &e.kind, &e.memo, &e.ref, &e.node, &e.first, &e.last}
		}, sqlMovedBefore, after)
		if err != nil || len(entries) == 0 {
			return err
		}
		for i := range entries {
			if err := t.moveBefore(&entries[i]); err != nil {
				return err
			}
		}
		if err := t.writeMoved(); err != nil {
			return err
		}
		after = entries[len(entries)-1].id
	}
}

// sideBefore is a posting of such an entry.
type sideBefore struct {
	book     string
	account  uint32
	currency money.Currency
	amount   money.Nano
}

// moveBefore records the movements of an entry from before version 11.
func (t *tx) moveBefore(e *movedBefore) error {
	sides, err := list(&t.Query, func(p *sideBefore) []any {
		return []any{&p.book, &p.account, &p.currency, &p.amount}
	}, "SELECT book, account, currency, amount FROM posting WHERE entry = $1 AND account > 0 ORDER BY account, book, currency", e.id)
	if err != nil {
		return err
	}
	for i := 0; i < len(sides); {
		from := i
		for i < len(sides) && sides[i].account == sides[from].account {
			i++
		}
		if err := t.moveFor(e, sides[from].account, sides[from:i]); err != nil {
			return err
		}
	}
	return nil
}

// moveFor is moveBefore for one account.
func (t *tx) moveFor(e *movedBefore, account uint32, sides []sideBefore) error {
	var paid, late money.Parts
	owed := money.Nano(0)
	for _, p := range sides {
		switch p.book {
		case "customer":
			paid[money.PlaceOf(p.currency)] -= p.amount
		case "late":
			late[money.PlaceOf(p.currency)] -= p.amount
		case debtBook:
			owed -= p.amount
		}
	}
	switch e.kind {
	case paidEntry:
		return t.repay(e.id, account, paid, e.tsUs)
	case "REFUND":
		return t.refundBefore(e, account, paid)
	case "CHARGE":
		return t.chargeBefore(e, account, late, owed)
	}
	_, err := t.exec("INSERT INTO owed(account, record, amount) VALUES($1, $2, $3)", account, []byte{}, int64(owed))
	return err
}

func (t *tx) refundBefore(e *movedBefore, account uint32, paid money.Parts) error {
	charge := &journal.Record{Account: account}
	if id, ok := RequestOf(e.ref); ok {
		found, err := t.findCharge(account, "first_us <= $2", func(r *journal.Record) bool { return r.RequestID == id }, e.tsUs)
		if err != nil {
			return err
		}
		if found != nil {
			*found = repaidOf(found, money.Parts{}) // an amount, not units
			charge = found
		}
	} else if id, ok := strings.CutPrefix(e.memo, "job "); ok && strings.HasPrefix(e.ref, "job:") {
		j, err := jobs.one(&t.Query, "id = $1", id)
		switch {
		case err == nil:
			if charge, err = t.chargeOfJob(j); err != nil {
				return err
			}
		case err != ErrNoRow:
			return err
		}
	}
	for place, n := range paid {
		if n != 0 {
			if err := t.refund(e.id, e.tsUs, refundOf(charge, place, -n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// chargeBefore finds in the detail which charges of an entry were late, or left debt.
func (t *tx) chargeBefore(e *movedBefore, account uint32, late money.Parts, owed money.Nano) error {
	pages, err := list(&t.Query, func(p *journal.Page) []any { return []any{&p.First, &p.Last, &p.Requests, &p.Data} },
		"SELECT seq_first, seq_last, requests, data FROM usage_page WHERE account = $1 AND node = $2 AND seq_last >= $3 AND seq_first <= $4 "+
			"ORDER BY seq_first", account, e.node, e.first, e.last)
	if err != nil {
		return err
	}
	batch := NewBatch()
	for i := range pages {
		pages[i].Account = account
		err := pages[i].Each(t.s.before, func(r *journal.Record) error {
			if r.Seq >= e.first && r.Seq <= e.last {
				batch.Add(r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	batch.NowUs = e.tsUs
	for place, n := range late {
		if n != 0 {
			t.waive(e.id, batch, []charge{{account: account, place: place, day: anyDay, late: n}})
		}
	}
	if owed -= batch.Debt[account]; owed > 0 {
		batch.owing = append(batch.owing, journal.Record{Account: account, Debt: owed})
	}
	return t.oweFor(batch.owing)
}
