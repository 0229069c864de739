package config

import (
	"strings"
	"testing"
)

// The first version with a password in the address logged it.
func TestStoreNameNeverShowsThePassword(t *testing.T) {
	f := func(store, want string) {
		t.Helper()
		c := &Config{Store: store}
		got := c.StoreName()
		if got != want || strings.Contains(got, "hunter2") {
			t.Errorf("the store is called %q, expected %q", got, want)
		}
	}
	f("./farebox-data", "./farebox-data")
	f("postgres://farebox:hunter2@db:5432/money", "PostgreSQL money on db:5432")
	f("postgresql://db/money?user=a&password=hunter2", "PostgreSQL money on db")
	f("postgres:///money?host=/run/postgresql&password=hunter2", "PostgreSQL money on /run/postgresql")
	f("postgres://a:hunter2%zz@db/money", "PostgreSQL")
}
