package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"farebox/bench/cmd/rows/fill"
	"farebox/billing"
)

func TestRowsFillALedgerAndMeasureItsReports(t *testing.T) {
	store := t.TempDir()
	out, errs, err := call(context.Background(), "--count", "5000", "--days", "10", "--keys", "2", "--models", "3",
		"--store", store, "--json")
	if err != nil {
		t.Fatal(err, errs)
	}
	var res fill.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if res.Filled.Entries < 5000 || res.Filled.Entries > 5010 || res.Filled.Charged <= 0 || len(res.Reports) < 10 ||
		strings.Contains(out, "ADMIN") {
		t.Errorf("the result is %s", out)
	}
	for _, r := range res.Reports {
		if r.First <= 0 || r.Most < r.Median || strings.HasPrefix(r.Name, "listing") && r.Entries == 0 &&
			!strings.Contains(r.Name, "page 10") {
			t.Errorf("the report %+v", r)
		}
	}
	// A second time into the same store is one more account.
	out, errs, err = call(context.Background(), "--count", "1000", "--store", store)
	if err != nil || !strings.Contains(out, "listing, newest 500") || strings.ContainsAny(errs, "\x1b\r") {
		t.Errorf("%v: %s %q", err, out, errs)
	}
}

func TestRowsRefuseWhatTheyCannotDo(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--count 10", "--store"},
		{"--count 0 --store DIR", "less than 1 entry"},
		{"--count 10 --keys 501 --store DIR", "expected 1 to 500"},
		{"--count 10 --models 0 --store DIR", "expected 1 to 1000"},
		{"--count 10 --days 4000 --store DIR", "expected 1 to 3650"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", t.TempDir()))
		if _, _, err := call(context.Background(), args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := call(ctx, "--count", "900000000", "--store", t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "stopped") {
		t.Errorf("an interrupted run ends with %v", err)
	}
}

// "bench rows --store postgres://… booked made-up revenue into the live ledger."
func TestRowsTakeNoLedgerOfOthers(t *testing.T) {
	store := t.TempDir()
	l, err := billing.Open(billing.Options{Dir: store, Brand: "svc"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := billing.Do(l, billing.CreateAccount{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := call(context.Background(), "--count", "10", "--store", store); err == nil ||
		!strings.Contains(err.Error(), "acme") {
		t.Errorf("a live ledger is filled: %v", err)
	}
}

func call(ctx context.Context, args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}
