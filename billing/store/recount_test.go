package store

import (
	"strings"
	"testing"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
)

// An auditor that cannot fail proves nothing: every kind of damage to the rows is found,
// on either engine.
func TestRecountFindsDamage(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for name, damage := range map[string]struct {
				statement, found string
				sharedOnly       bool
			}{
				"escrow without a lease": {
					"UPDATE bucket SET escrow = escrow + 1, granted = granted + 1 WHERE currency = 4", "in escrow",
					false},
				"lease lost": {"DELETE FROM lease WHERE currency = 1", "in escrow", true},
				"lease grown": {"UPDATE lease SET amount = amount + 1 WHERE currency = 1", "in escrow",
					true},
				"lease of nobody": {
					"INSERT INTO lease(node, account, currency, day, amount) VALUES(77, 1, 1, 0, 0)",
					"its node has ended", false},
				"lease of a node that left": {"UPDATE node SET ended = 1", "its node has ended", true},
				"limit of a key that is gone": {
					"INSERT INTO quota(node, api_key, currency, period, amount) VALUES(1, 777, 1, 0, 5)",
					"does not exist", false},
				"cursor lost": {"DELETE FROM applied WHERE sink = 'usage'", "cursors", false},
				"cursor of another process": {"UPDATE applied SET inc = inc + 1 WHERE sink = 'usage'", "cursors",
					false},
				"detail ahead of balances": {"UPDATE applied SET seq = seq + 1000 WHERE sink = 'usage'", "cursors",
					false},
				"cursor set back": {"UPDATE applied SET seq = 1", "charges of the records", false},
				"batch booked twice": {
					"INSERT INTO entry(id, ts_us, kind, seq_first, seq_last, node) SELECT 9999, ts_us, kind, " +
						"seq_first, seq_last, node FROM entry WHERE kind = 'CHARGE'", "charges of the records", false},
				"progress damaged": {"UPDATE open_progress SET hold = hold + 1", "progress of hold", false},
				"change lost":      {"DELETE FROM change WHERE no = 2", "the feed", true},
				"change uncounted": {"UPDATE counter SET value = 1 WHERE name = 'change'", "the feed",
					true},
				"money from nowhere": {
					"UPDATE bucket SET avail = avail + 1, granted = granted + 1 WHERE currency = 4",
					"credited by entries", false},
				"charge taken back": {
					"UPDATE bucket SET avail = avail + 1, spent = spent - 1 WHERE spent > 0", "by postings", false},
				"usage of nobody": {"UPDATE usage_day SET account = 99", "does not exist", false},
				"usage changed": {"UPDATE usage_day SET amount = amount + 1 WHERE kind = 1", "by days",
					false},
				"usage of another key": {"UPDATE usage_day SET api_key = api_key + 1", "by day, key and model",
					false},
				"usage of another day": {"UPDATE usage_day SET day = day + 1", "by day, key and model", false},
				"usage of another model": {"UPDATE usage_day SET model = model + 1", "by day, key and model",
					false},
				"usage of another kind": {"UPDATE usage_day SET kind = kind + 4", "by day, key and model",
					false},
				"tokens changed": {"UPDATE usage_day SET units = units + 1 WHERE kind = 4",
					"by day, key and model", false},
				"amount of another line": {
					"UPDATE usage_day SET amount = amount + CASE kind WHEN 1 THEN 1 WHEN 4 THEN -1 ELSE 0 END",
					"by day, key and model", false},
				"bucket of nobody": {
					"INSERT INTO bucket(account, currency, day, granted, avail) VALUES(99, 1, 0, 1, 1)",
					"belongs to no account", false},
				"posting changed": {"UPDATE posting SET amount = amount - 1 WHERE book = 'customer'",
					"does not balance", false},
				"posting moved to another": {
					"UPDATE posting SET account = 2 WHERE book = 'customer' AND amount < 0", "by postings", false},
				"running sum of a house book": {"UPDATE house SET balance = balance + 1 WHERE book = 'revenue'",
					"postings add up", false},
				"debt forgiven":       {"UPDATE debt SET incurred = incurred - 1", "owed", false},
				"debt paid by nobody": {"UPDATE debt SET paid = paid + 1", "owed", false},
				"debt taken off the book": {"UPDATE house SET balance = 0 WHERE book = 'debt'", "postings add up",
					false},
				"shortfall taken off the book": {"UPDATE house SET balance = 0 WHERE book = 'shortfall'",
					"postings add up", false},
			} {
				t.Run(name, func(t *testing.T) {
					c := e.open(t)
					db := c.shared
					if db == nil {
						t.Cleanup(func() { _ = c.Close() })
						if damage.sharedOnly {
							t.Skip("one node has no leases")
						}
					} else {
						c.Store = db
					}
					c.t, c.b = t, NewBatch()
					c.b.Begin(0)
					a := c.account("a", money.Parts{0, 20, 100})
					c.account("b", money.Parts{0, 0, 1})
					sold := money.Text(&config.Price{Input: 1000, Output: 2000}, money.Usage{Prompt: 10, Completion: 5})
					var detail journal.Pages
					detail.Begin(0)
					for _, r := range []journal.Record{
						{Kind: journal.Hold, Seq: 1, Account: a},
						{Kind: journal.Progress, Seq: 2, Hold: 1, Account: a, Key: 1, Model: 1, Day: conformDay,
							TimeNs: 5, Amounts: money.Parts{0, 0, 3}},
						{Kind: journal.Settle, Seq: 3, Hold: 3, Account: a, Key: 1, Model: 1, Day: conformDay,
							TimeNs: 5, Amounts: money.Parts{0, 0, 30}, Shortfall: 4, Lines: sold},
						{Kind: journal.Settle, Seq: 4, Hold: 4, Account: a, Key: 1, Model: 1, Day: conformDay,
							TimeNs: 5, Amounts: money.Parts{0, 20, 70}, Debt: 6, Lines: sold},
					} {
						c.b.Add(&r)
						detail.Add(&r)
					}
					c.apply()
					c.must(c.AddPages(detail.List(), 1, 4))
					c.recount()
					var err error
					if db != nil {
						_, err = db.writer.Exec(damage.statement)
					} else {
						_, err = c.Store.(*sqliteStore).writer.Exec(damage.statement)
					}
					if err != nil {
						t.Fatal(err)
					}
					r, err := c.Recount(func() {})
					if err != nil {
						t.Fatal(err)
					}
					if all := strings.Join(r.Report().Faults, "\n"); !strings.Contains(all, damage.found) {
						t.Errorf("found: %q", all)
					}
				})
			}
		})
	}
}

// "A key could not be found any more, and verify said that all was well."
func TestRecountFindsABrokenIndex(t *testing.T) {
	t.Parallel()
	s := engines[0].open(t).Store.(*sqliteStore)
	defer func() { _ = s.Close() }()
	if err := s.AddKey(&KeyRow{ID: "k", Account: addAccount(t, s, "a", money.Parts{}), Type: Inference, Period: Epoch,
		Privacy: AnyModel}, 5); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"PRAGMA writable_schema = ON",
		"UPDATE sqlite_schema SET sql = 'CREATE INDEX api_key_account ON api_key(created_us)' WHERE name = " +
			"'api_key_account'",
		"PRAGMA schema_version = 1000",
		"PRAGMA writable_schema = OFF",
	} {
		if _, err := s.writer.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Recount(func() {})
	if err != nil || len(r.Faults) == 0 || !strings.Contains(r.Faults[0], "the database file is damaged") {
		t.Errorf("found %v, %v", r, err)
	}
}
