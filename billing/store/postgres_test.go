package store

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// "The password of the database was in the log."
func TestPasswordIsInNoError(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr#t/pass"
	for name, change := range map[string]func(u *url.URL){
		"wrong password":  func(*url.URL) {},
		"nobody there":    func(u *url.URL) { u.Host = "127.0.0.1:1" },
		"unknown host":    func(u *url.URL) { u.Host = "no-such-host.invalid:5432" },
		"no database":     func(u *url.URL) { u.Path = "nothing" },
		"unknown setting": func(u *url.URL) { u.RawQuery = "sslmode=perhaps" },
		"bad port":        func(u *url.URL) { u.Host = "127.0.0.1:99999" },
		"as a setting": func(u *url.URL) {
			u.User = url.User("postgres")
			u.RawQuery = url.Values{"password": {secret}, "sslmode": {"disable"}}.Encode()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := *u
			v.User = url.UserPassword("postgres", secret)
			change(&v)
			s, err := OpenPostgres(v.String(), 0)
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), "s3cr"} {
				if strings.Contains(err.Error(), form) {
					t.Errorf("the password is in %q", err)
				}
			}
			if !strings.HasPrefix(err.Error(), "cannot use the ") {
				t.Errorf("the error is %q", err)
			}
		})
	}
	if _, err := OpenPostgres("postgres://postgres:"+secret+"@host:port/x", 0); err == nil ||
		strings.Contains(err.Error(), "s3cr") {
		t.Errorf("a malformed address gives %v", err)
	}
}

// A server that is too old is refused with a clear message; others that speak like
// PostgreSQL are not.
func TestOldServerIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int
		want   string
	}{
		{"PostgreSQL 14.11 on x86_64", 140011, "version 14.11, and farebox needs 15 or later"},
		{"PostgreSQL 15.0", 150000, ""},
		{"PostgreSQL 18.1", 180001, ""},
		{"CockroachDB CCL v24.1.0", 130000, ""},
	} {
		err := checkServerVersion(c.name, c.number)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The retried errors decide whether charges are lost, or only reported as lost.
func TestOnlyTransientErrorsAreRetried(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "40001"}, true},
		{&pgconn.PgError{Code: "40P01"}, true},
		{&pgconn.PgError{Code: "57P01"}, true},
		{&pgconn.PgError{Code: "57P03"}, true},
		{&pgconn.PgError{Code: "08006"}, true},
		{&pgconn.PgError{Code: "23505", ConstraintName: "account_name_key"}, false},
		{&pgconn.PgError{Code: "23505", ConstraintName: "pg_type_typname_nsp_index"}, true},
		{&pgconn.PgError{Code: "42710"}, true},  // type "schema_version" already exists
		{&pgconn.PgError{Code: "23514"}, false}, // a balance below zero
		{&pgconn.PgError{Code: "57014"}, false}, // statement timeout
		{ErrFenced, false},
		{errors.New("anything"), false},
	} {
		if got := againPostgres(c.err); got != c.want {
			t.Errorf("%v is tried again: %v", c.err, got)
		}
	}
}

// "The gateway hung for minutes because a firewall swallowed its packets."
func TestStoreThatSwallowsEverythingIsGivenUp(t *testing.T) {
	t.Parallel()
	cut, s := openThroughCut(t, servers.Database(t), "node")
	a := addAccount(t, s, "a", money.Parts{0, 0, 100})
	cut.Hole(true)
	began := time.Now()
	if _, err := s.Grant(1, []Want{{Account: a, Amounts: money.Parts{0, 0, 10}}}); err == nil {
		t.Fatal("an answer came through a hole")
	}
	if took := time.Since(began); took > leaseTimeout+15*time.Second {
		t.Errorf("it took %s to give up", took)
	}
	cut.Hole(false)
	list, err := s.Grant(1, []Want{{Account: a, Amounts: money.Parts{0, 0, 10}}})
	if err != nil || list[0].Granted[money.InUSD] != 10 || list[0].Lease[money.InUSD] != 10 {
		t.Errorf("afterwards: %+v %v", list, err)
	}
}

// openThroughCut joins a store through a proxy that can fail.
func openThroughCut(t *testing.T, address, name string) (*servers.Cut, *postgresStore) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	cut := servers.StartCut(t, u.Host)
	u.Host = cut.Addr
	return cut, openNode(t, u.String(), name)
}

func addAccount(t *testing.T, s Store, name string, balance money.Parts) uint32 {
	t.Helper()
	a := &AccountRow{ID: "id-" + name, Name: name, CreatedUs: conformUs}
	if err := s.AddAccount(a); err != nil {
		t.Fatal(err)
	}
	for place, n := range balance {
		if n > 0 {
			if _, err := s.Credit(&Credit{Account: a.No, Currency: money.SpendOrder[place], Day: conformDay, Amount: n,
				Ref: name + "-" + money.SpendOrder[place].String(), NowUs: conformUs}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a.No
}
