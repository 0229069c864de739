package fill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"farebox/billing"
	"farebox/billing/report"
)

// Options say which rows to write, and into which store.
type Options struct {
	Store    string // directory of an embedded ledger, or postgres://…
	Fill     billing.FillOptions
	Progress func(done float64, line string)
}

// Result is the number of rows written and the time of each report.
type Result struct {
	Filled  billing.Filled
	Reports []Report
}

// Report is one question and the times of asking it.
type Report struct {
	Name         string
	Entries      int
	First        time.Duration // cold
	Median, Most time.Duration // of the further ones
}

// asked is how often each question is asked after the first time.
const asked = 9

// Run opens the store, fills it and asks the reports.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	options := billing.Options{Dir: o.Store, Brand: "svc"}
	if strings.Contains(o.Store, "://") {
		dir, err := os.MkdirTemp("", "farebox-rows-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		options.Dir, options.Shared = dir, o.Store
	}
	ledger, err := billing.Open(options)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger in %s: %w", o.Store, err)
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if err := refuseSharedLedger(ledger, o.Store); err != nil {
		return nil, err
	}
	if o.Progress != nil {
		o.Fill.Show = func(entries int64) {
			o.Progress(min(1, float64(entries)/float64(o.Fill.Entries)), fmt.Sprintf("%d entries", entries))
		}
	}
	filled, err := ledger.Fill(ctx, o.Fill)
	if err != nil {
		return nil, fmt.Errorf("cannot fill the ledger: %w", err)
	}
	key, err := ledger.Lookup([]byte(filled.Secret))
	if err != nil {
		return nil, err
	}
	res = &Result{Filled: *filled}
	for _, q := range questions(ledger, key, filled.Entries, o.Fill.Days) {
		report, err := q.measure(ctx)
		if err != nil {
			return res, fmt.Errorf("cannot ask for %s: %w", q.name, err)
		}
		res.Reports = append(res.Reports, report)
	}
	return res, nil
}

// refuseSharedLedger refuses a ledger with other users: rows written here count
// as revenue.
func refuseSharedLedger(l *billing.Ledger, store string) error {
	accounts, err := billing.All(l, billing.ListAccounts{})
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if !strings.HasPrefix(a.Name, "rows-") {
			return fmt.Errorf("cannot fill %s with made-up usage: it has the account %q, which was not made by this "+
				"command; give a store of its own", store, a.Name)
		}
	}
	return nil
}

type question struct {
	name string
	ask  func(try int) (entries int, err error)
}

func questions(l *billing.Ledger, k *billing.Key, entries int64, days int) []question {
	const limit = 500
	now := time.Now()
	list := func(name string, q report.ListQuery) question {
		q.Limit = limit
		return question{name, func(int) (int, error) {
			list, err := l.Reports(k.Account).List(q)
			return len(list.Entries), err
		}}
	}
	middle := now.AddDate(0, 0, -days/2)
	week := middle.Add(7 * 24 * time.Hour).UnixMicro()
	return []question{
		{"balance", func(int) (int, error) {
			_, err := l.Reports(k.Account).Balance()
			return 0, err
		}},
		list("listing, newest 500", report.ListQuery{Page: 1}),
		list("listing, 500 in the middle", report.ListQuery{Page: 1 + entries/limit/2}),
		list("listing, oldest 500 as the last page", report.ListQuery{Page: max(1, entries/limit)}),
		list("listing, oldest first", report.ListQuery{Page: 1, Ascending: true}),
		list("listing, a week in the middle, page 10", report.ListQuery{Page: 10, FromUs: middle.UnixMicro(),
			ToUs: week}),
		list("listing, BUNDLED_CREDITS in the middle", report.ListQuery{Page: 1 + entries/limit/40,
			Currency: billing.Bundled}),
		{"history, 1000 from the middle", func(int) (int, error) {
			h, err := l.Reports(k.Account).History(report.HistoryQuery{PageSize: 1000, FromUs: middle.UnixMicro()})
			return len(h.Entries), err
		}},
		{"history, 1000 of BUNDLED_CREDITS", func(int) (int, error) {
			h, err := l.Reports(k.Account).History(report.HistoryQuery{PageSize: 1000, Currency: billing.Bundled})
			return len(h.Entries), err
		}},
		// Each try is of other days, since answers are kept.
		{"analytics, 7 days, not kept", func(try int) (int, error) {
			today := l.Today() - int32(try)
			_, err := l.Reports(k.Account).Analytics(today-6, today)
			return 0, err
		}},
		{"analytics, 90 days, not kept", func(try int) (int, error) {
			today := l.Today() - int32(try)
			_, err := l.Reports(k.Account).Analytics(today-89, today)
			return 0, err
		}},
		{"analytics, 90 days, kept", func(int) (int, error) {
			_, err := l.Reports(k.Account).Analytics(l.Today()-89, l.Today())
			return 0, err
		}},
	}
}

func (q *question) measure(ctx context.Context) (r Report, err error) {
	r.Name = q.name
	var times []time.Duration
	for try := range asked + 1 {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		began := time.Now()
		if r.Entries, err = q.ask(try); err != nil {
			return r, err
		}
		if took := time.Since(began); try == 0 {
			r.First = took
		} else {
			times = append(times, took)
		}
	}
	slices.Sort(times)
	r.Median, r.Most = times[len(times)/2], times[len(times)-1]
	return r, nil
}

// Print writes the result as a table.
func (r *Result) Print(out io.Writer) error {
	f := &r.Filled
	fmt.Fprintf(out, "%d entries of %d requests in %.1f s (%.0f entries/s), %s charged to %s\n",
		f.Entries, f.Requests, f.Took.Seconds(), float64(f.Entries)/f.Took.Seconds(), f.Charged, f.Account)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "REPORT\tENTRIES\tFIRST\tMEDIAN\tWORST")
	for _, q := range r.Reports {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", q.Name, q.Entries, milli(q.First), milli(q.Median), milli(q.Most))
	}
	return w.Flush()
}

func milli(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }
