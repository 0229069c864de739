package billing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// statementsAddUp reads the statements of all accounts, and compares them with the balances in the
// store, and with usage and its reports, as a whole and for periods.
func statementsAddUp(t testing.TB, l *Ledger) {
	t.Helper()
	accounts, err := l.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		var faults []string
		for range 5 {
			before := postings(t, l, a.ID)
			faults = statementFaults(t, l, a.ID)
			if postings(t, l, a.ID) == before {
				break // nothing was booked meanwhile, e.g. the end of an allowance
			}
		}
		for _, fault := range faults {
			t.Errorf("account %s: %s", a.ID, fault)
		}
	}
}

// checkedLines is the longest statement that is checked after every recount.
const checkedLines = 3000

func statementFaults(t testing.TB, l *Ledger, account string) (faults []string) {
	t.Helper()
	for range 10 {
		before := lastEntry(t, l)
		if faults = faultsOfStatement(t, l, account); len(faults) == 0 || lastEntry(t, l) == before {
			return faults
		}
		// The ledger has booked something between two reads, such as the end of an allowance.
	}
	return append(faults, "and each time something was booked meanwhile")
}

func lastEntry(t testing.TB, l *Ledger) (no int64) {
	t.Helper()
	err := l.store.Report(context.Background(), func(q *store.Query) error {
		return q.Row("SELECT coalesce(max(id), 0) FROM entry").Scan(&no)
	})
	if err != nil {
		t.Fatal(err)
	}
	return no
}

// faultsOfStatement compares the store, the statement and its periods, which it reads one after the other.
func faultsOfStatement(t testing.TB, l *Ledger, account string) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var used Nano
	for _, currency := range money.SpendOrder {
		all, opening := readLines(t, l, report.StatementQuery{Account: account, Currency: currency, Most: 700})
		if len(all) > checkedLines {
			return nil
		}
		if opening != 0 {
			fault("its statement begins with %s %s", opening, currency)
		}
		balance := Nano(0)
		for i := range all {
			if balance += all[i].Amount; balance != all[i].Balance {
				fault("%s: line %d leaves %s, by all before it %s: %+v", currency, i, all[i].Balance, balance, all[i])
				return faults
			}
			if all[i].Consumption() {
				used -= all[i].Amount
			}
		}
		if has := storeHas(t, l, account, currency); has != balance {
			fault("it has %s %s, by its statement %s", has, currency, balance)
		}
		periodsAddUp(t, l, account, currency, all, fault)
	}
	sums, err := l.UsageReport(report.SumQuery{Account: account, From: time.Unix(0, 0), To: time.Unix(1<<33, 0), By: "account"})
	if err != nil {
		t.Fatal(err)
	}
	reported := Nano(0)
	for _, s := range sums {
		reported += s.USD + s.DIEM + s.Bundled
	}
	if reported != used {
		fault("used %s by its statement, %s by days", used, reported)
	}
	return faults
}

// readLines reads all parts of a statement, or more than checkedLines.
func readLines(t testing.TB, l *Ledger, q report.StatementQuery) (all []report.StatementLine, opening Nano) {
	t.Helper()
	for first := true; (first || q.After > 0) && len(all) <= checkedLines; first = false {
		part, err := l.Statement(q)
		if err != nil {
			t.Fatal(err)
		}
		if first {
			opening = part.Opening
		}
		all, q.After = append(all, part.Lines...), part.Next
	}
	return all, opening
}

// storeHas is the balance of an account in the store, with holds and leases.
func storeHas(t testing.TB, l *Ledger, account string, c Currency) (n Nano) {
	t.Helper()
	err := l.store.Report(context.Background(), func(q *store.Query) error {
		return q.Row("SELECT CAST(coalesce(sum(avail + escrow), 0) AS {I64}) FROM bucket JOIN account ON no = account "+
			"WHERE (id = $1 OR name = $1) AND currency = $2", account, int64(c)).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// postings counts the postings of an account.
func postings(t testing.TB, l *Ledger, account string) (n int64) {
	t.Helper()
	if err := l.catchUp(); err != nil {
		t.Fatal(err)
	}
	err := l.store.Report(context.Background(), func(q *store.Query) error {
		return q.Row("SELECT CAST(coalesce(sum(postings), 0) AS {I64}) FROM account_sum JOIN account ON no = account WHERE id = $1",
			account).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// periodsAddUp cuts a statement in three periods.
func periodsAddUp(t testing.TB, l *Ledger, account string, currency Currency, all []report.StatementLine,
	fault func(format string, args ...any),
) {
	t.Helper()
	cuts := []time.Time{{}, {}, {}, {}}
	if n := len(all); n > 0 {
		cuts[1], cuts[2] = all[n/3].At, all[2*n/3].At
		if cuts[2].Before(cuts[1]) {
			cuts[1], cuts[2] = cuts[2], cuts[1]
		}
	}
	for i := range 3 {
		from, to := cuts[i], cuts[i+1]
		if i > 0 && from.IsZero() || !to.IsZero() && !from.Before(to) {
			continue
		}
		var before, used Nano
		var want []report.StatementLine
		for _, line := range all {
			switch {
			case line.At.Before(from):
				before += line.Amount
			case to.IsZero() || line.At.Before(to):
				want = append(want, line)
				if line.Consumption() {
					used -= line.Amount
				}
			}
		}
		got, opening := readLines(t, l, report.StatementQuery{Account: account, Currency: currency, From: from, To: to})
		if opening != before || fmt.Sprint(got) != fmt.Sprint(want) {
			fault("%s from %s to %s: %d lines after %s, expected %d after %s\n%s\n%s", currency, from, to,
				len(got), opening, len(want), before, shown(got), shown(want))
		}
		if listed := listedUse(t, l, account, currency, from, to); listed != used {
			fault("%s from %s to %s: used %s by its statement, %s by the list of usage", currency, from, to,
				used, listed)
		}
	}
}

// shown has the first lines of a statement.
func shown(list []report.StatementLine) (text string) {
	for _, l := range list[:min(len(list), 12)] {
		text += fmt.Sprintf("\t%s %s %s owed %s leaves %s: %s\n", l.At.Format(time.RFC3339Nano), l.Kind, l.Amount, l.Owed, l.Balance, l.Reason)
	}
	return text
}

// listedUse adds up the list of usage.
func listedUse(t testing.TB, l *Ledger, account string, currency Currency, from, to time.Time) (sum Nano) {
	t.Helper()
	a, err := l.findAccount(account)
	if err != nil {
		t.Fatal(err)
	}
	q := report.ListQuery{Currency: currency, Limit: 500, Ascending: true}
	if !from.IsZero() {
		q.FromUs = from.UnixMicro()
	}
	if !to.IsZero() {
		q.ToUs = to.UnixMicro()
	}
	for q.Page = 1; ; q.Page++ {
		list, err := l.Reports(a).List(q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Entries {
			sum += list.Entries[i].Amount
		}
		if int64(len(list.Entries)) < q.Limit {
			return sum
		}
	}
}
