package billing

import (
	"database/sql"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// ledgersUnderLoad were left by the farebox of three commits, after load, kill -9 and more load,
// and ended by kill -9: chats (streamed, left, without usage, failed), embeddings, pictures,
// credits, refunds by operators and debits; in the last also music, some of it failed. Beside each
// ledger is its backup, and the driver's records (driverRecord).
var ledgersUnderLoad = []string{"84d5e46", "524abac", "63e0876"}

// driverRecord holds the driver's own movements, and the figures of the old farebox at the end.
type driverRecord struct {
	Accounts map[string]struct {
		Balances map[string][2]string // by currency: free, leased
		Debt     string
		Credits  [][2]string // currency, amount
		Refunds  [][3]string // and the request, where it is known
		Debits   [][2]string
		Requests [][4]string // id, currency, amount, SKU: the lines of all charges
	}
	Jobs []struct {
		Account, Model string
		Refunded       struct{ USD, DIEM, Bundled string }
	}
}

// "After the update, what did my customers pay last month?" Each statement of a migrated
// ledger agrees with the driver's records and with the sums of the store's tables.
func TestLedgersOfThreeCommitsTellTheTruthAboutTheirPast(t *testing.T) {
	servers.NoRace(t)
	at := func() time.Time { return time.Date(2026, 11, 25, 18, 0, 0, 0, time.UTC) }
	for _, commit := range ledgersUnderLoad {
		for how, prepare := range map[string]func(t *testing.T, dir string) Options{
			"in its place":  func(_ *testing.T, dir string) Options { return Options{Dir: dir} },
			"by its backup": func(t *testing.T, dir string) Options { return restored(t, dir, Options{Dir: t.TempDir()}) },
			"by its backup into PostgreSQL": func(t *testing.T, dir string) Options {
				return restored(t, dir, Options{Dir: t.TempDir(), Shared: servers.Database(t), storeAhead: time.Until(at())})
			},
		} {
			t.Run(commit+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := unpack(t, "ledger-"+commit+".tar.gz")
				text, err := os.ReadFile(filepath.Join(dir, "record.json"))
				if err != nil {
					t.Fatal(err)
				}
				var record driverRecord
				if err := json.Unmarshal(text, &record); err != nil {
					t.Fatal(err)
				}
				f := openLedger(t, func(o *Options) {
					*o = prepare(t, dir)
					o.Brand, o.Clock, o.segmentSize = "svc", at, 64<<10
				})
				f.recount()
				for name := range record.Accounts {
					for _, currency := range money.SpendOrder {
						f.tellsOfDriver(&record, name, currency)
						f.tellsOfTables(name, currency)
					}
				}
			})
		}
	}
}

// parsed reads an amount that JSON has as text.
func parsed(t *testing.T, text string) Nano {
	t.Helper()
	negative := strings.HasPrefix(text, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	v, err := strconv.ParseInt(whole+(fraction + "000000000")[:9], 10, 64)
	if err != nil || len(fraction) > 9 {
		t.Fatalf("the amount %q: %v", text, err)
	}
	if negative {
		return Nano(-v)
	}
	return Nano(v)
}

// tellsOfDriver compares a statement with the driver's records.
func (f *fixture) tellsOfDriver(record *driverRecord, name string, currency Currency) {
	t := f.t.(*testing.T)
	t.Helper()
	account, in := record.Accounts[name], currency.String()
	want, got := map[string]Nano{}, map[string]Nano{}
	requests := map[string]Nano{}
	add := func(kind string, list [][2]string, sign Nano) {
		for _, x := range list {
			if x[0] == in {
				want[kind] += sign * parsed(t, x[1])
			}
		}
	}
	add(report.LineCredit, account.Credits, 1)
	add(report.LineDebit, account.Debits, -1)
	refunds := map[string]Nano{} // by request, or by the model of jobs
	for _, x := range account.Refunds {
		if x[0] == in {
			refunds[x[2]] += parsed(t, x[1])
		}
	}
	operators := maps.Clone(refunds)
	for _, j := range record.Jobs {
		back := map[Currency]string{USD: j.Refunded.USD, DIEM: j.Refunded.DIEM, Bundled: j.Refunded.Bundled}[currency]
		if j.Account == name {
			refunds["job of "+j.Model] += parsed(t, back)
		}
	}
	for _, n := range refunds {
		want[report.LineRefund] += n
	}
	for _, x := range account.Requests {
		if x[1] == in {
			requests[x[0]] += parsed(t, x[2])
			want[report.LineCharge] += parsed(t, x[2])
		}
	}
	lines, _ := readLines(t, f.Ledger, report.StatementQuery{Account: name, Currency: currency})
	for i := range lines {
		l := &lines[i]
		kind := l.Kind
		switch kind {
		case report.LineDebit: // a correction pays the rest that it left as debt
			got[kind] -= l.Owed
		case report.LineCorrection:
			kind = report.LineDebit
			got[kind] -= l.Owed
		case report.LineCharge:
			requests[l.Request] -= l.Amount
		case report.LineRefund:
			if l.Request != "" && (l.Model == "" || l.Key == "") {
				t.Errorf("%s: a refund of a request without its model or key: %+v", name, l)
			}
			of := l.Request
			if _, ok := operators[of]; !ok {
				of = "job of " + l.Model
			}
			refunds[of] -= l.Amount
		}
		got[kind] += l.Amount
	}
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%s: %s %s of kind %s in its statement, by the driver %s", name, got[kind], in, kind, n)
		}
	}
	for of, n := range refunds {
		if n != 0 {
			t.Errorf("%s: the refunds of %q in %s differ from the driver's by %s", name, of, in, n)
		}
	}
	for id, n := range requests {
		if n != 0 {
			t.Errorf("%s: the charges of request %s in %s differ from the driver's by %s", name, id, in, n)
		}
	}
	left := parsed(t, account.Balances[in][0]) + parsed(t, account.Balances[in][1])
	if n := len(lines); n > 0 && lines[n-1].Balance != left || n == 0 && left != 0 {
		t.Errorf("%s: the old farebox said %s %s, the statement has %d lines", name, left, in, n)
	}
}

// tellsOfTables compares a statement with the plain sums of the store's tables.
func (f *fixture) tellsOfTables(name string, currency Currency) {
	f.t.Helper()
	booked := map[string]Nano{}
	err := f.store.Report(f.t.Context(), func(q *store.Query) error {
		return q.Each(func(rows *sql.Rows) error {
			var kind string
			var n Nano
			err := rows.Scan(&kind, &n)
			booked[kind] += n
			return err
		}, `SELECT e.kind, CAST(sum(p.amount) AS {I64}) FROM posting p JOIN entry e ON e.id = p.entry
			JOIN account a ON a.no = p.account WHERE a.name = $1 AND p.currency = $2 AND p.book = 'customer' GROUP BY e.kind`,
			name, int64(currency))
	})
	if err != nil {
		f.t.Fatal(err)
	}
	kinds := map[string]string{report.LineWaived: "CHARGE", report.LineCorrection: "DEBT", report.LineCredit: "TOP_UP",
		report.LineDebit: "ADJUST", report.LineReverse: "ADJUST"}
	lines, _ := readLines(f.t, f.Ledger, report.StatementQuery{Account: name, Currency: currency})
	for i := range lines {
		kind := lines[i].Kind
		if k, ok := kinds[kind]; ok {
			kind = k
		}
		booked[kind] -= lines[i].Amount
	}
	for kind, n := range booked {
		if n != 0 {
			f.t.Errorf("%s: the tables have %s %s of kind %s more than the statement", name, n, currency, kind)
		}
	}
}
