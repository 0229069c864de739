package providers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
)

// catalogOf builds the catalog of a config text.
func catalogOf(t testing.TB, text string, prev *Catalog, now time.Time) *Catalog {
	t.Helper()
	path := filepath.Join(t.TempDir(), "farebox.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCatalog(cfg, prev, now, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(nil) })
	c.clock = func() time.Time { return now }
	return c
}

var today = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const upstreamsText = `
upstreams:
  - { name: a, base_url: "http://127.0.0.1:1/v1", key: ka }
  - { name: b, base_url: "http://127.0.0.1:2/v1", breaker: { failures: 2, open_for: 10s } }
`
