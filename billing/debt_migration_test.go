package billing

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// unpack writes an archive of testdata to a new directory.
func unpack(t *testing.T, name string) (dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for in := tar.NewReader(zip); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+head.Name))
		if head.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else if data, bad := io.ReadAll(in); bad == nil {
			err = os.WriteFile(path, data, 0o600)
		} else {
			err = bad
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// "After the update the last charges were gone, and I owed what had been forgiven."
// The ledger was made by farebox of schema 3 and left as a kill -9 leaves it:
// a has 10 USD, 1.70 bundled after 1.30 of charges, a request at a progress of 2
// on a hold of 1, and one without any; b was charged 2 of 7, the last of it in
// the journal alone.
func TestLedgerOfSchema3ComesForwardWithItsJournal(t *testing.T) {
	dir := unpack(t, "ledger-schema3.tar.gz")
	raw, err := os.ReadFile(filepath.Join(dir, "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	a, b, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	f := openLedger(t, func(o *Options) { o.Dir = dir })
	balance := func(secret string, usd, diem, bundled Nano) {
		t.Helper()
		if u, d, m := f.find(secret).Balance(); u != usd || d != diem || m != bundled {
			t.Errorf("the balance is %s USD, %s DIEM, %s bundled; expected %s, %s, %s", u, d, m, usd, diem, bundled)
		}
	}
	balance(a, 10*usd, 0, 7*usd/10)
	balance(b, 0, 0, 0)
	if r := f.recount(); r.Charged != 43*usd/10 || r.Shortfall != 6*usd || r.Debt != 0 {
		t.Errorf("recounted %s charged, %s short, %s owed", r.Charged, r.Shortfall, r.Debt)
	}
	var h Hold
	k := f.find(a)
	f.Admit(&h, f.ask(k, usd))
	// The limit of 9 has 0.3 and 1 behind it.
	if charged, owed := f.settle(&h, 20*usd); charged != 77*usd/10 || owed != 123*usd/10 {
		t.Errorf("charged %s, and %s is owed", charged, owed)
	}
	f.credit("b", USD, usd)
	balance(b, usd, 0, 0)
	if owed := k.Owed(); owed != 93*usd/10 {
		t.Errorf("%s is owed", owed)
	}
	f.recount()
	f.reopen()
	f.recount()
}

// "The old nodes went on beside the new ones, and forgot what they were owed."
func TestOlderNodesBesideNewerOnesAreRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []int{3, 4} {
		t.Run(fmt.Sprint("schema ", version), func(t *testing.T) { olderNodesAreRefused(t, version) })
	}
}

func olderNodesAreRefused(t *testing.T, version int) {
	address := servers.Database(t)
	old := schemaOn(t, address, version)
	if _, err := old.Exec("INSERT INTO node(no, id, name, inc, started_us, expires_us) VALUES(1, 'i', 'front-1', 4, 0, $1), (2, 'j', 'front-2', 1, 0, $1)",
		time.Now().Add(time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec("INSERT INTO applied(node, sink, inc, seq) VALUES(1, 'ledger', 4, 7), (1, 'usage', 4, 7)"); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func() error{
		func() error { _, err := OperateShared(address, "svc"); return err },
		func() error { _, err := openPostgres(address, 0); return err },
	} {
		err := open()
		for _, word := range []string{"front-1, front-2", "make a backup", "stop all its nodes", "start this one"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("beside live nodes of schema %d the answer is %v, expected %q", version, err, word)
			}
		}
	}
	var now int
	if err := old.QueryRow("SELECT version FROM schema_version").Scan(&now); err != nil || now != version {
		t.Fatalf("the schema is %d (%v)", now, err)
	}
	// One has ended, the other is gone, and comes back later as it was.
	if _, err := old.Exec("UPDATE node SET ended = no - 1, expires_us = 0"); err != nil {
		t.Fatal(err)
	}
	s, err := openPostgres(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.node, s.inc = 1, 4
	if _, err := s.Beat(time.Minute); !errors.Is(err, errFenced) {
		t.Errorf("a process from before the migration goes on: %v", err)
	}
	if err := s.Apply(&batch{first: 8, last: 8}); !errors.Is(err, errFenced) {
		t.Errorf("a process from before the migration books: %v", err)
	}
	if no, inc, err := s.Join("i", "front-1", time.Minute); no != 1 || int(inc) != 4+schemaVersion-version+1 || err != nil {
		t.Errorf("the node comes back as %d %d (%v)", no, inc, err)
	}
	if seq, err := s.Applied(sinkLedger); seq != 7 || err != nil {
		t.Errorf("its cursor is at %d (%v)", seq, err)
	}
	if r, err := s.Recount(func() {}); err != nil || len(r.report().Faults) > 0 {
		t.Errorf("the recount finds %+v (%v)", r, err)
	}
	if _, err := old.Exec("UPDATE schema_version SET version = $1", schemaVersion+1); err != nil {
		t.Fatal(err)
	}
	if _, err := openPostgres(address, 0); err == nil || !strings.Contains(err.Error(), "newer farebox") {
		t.Errorf("an older farebox is answered with %v", err)
	}
}

// oldUsageDay is the table of daily usage before version 5.
var oldUsageDay = strings.Replace(usageDay4, "usage_day4", "usage_day", 1) + "CREATE INDEX usage_day_day ON usage_day(account, day);"

// schemaOn makes an empty store of schema 3 or 4.
func schemaOn(t *testing.T, address string, version int) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	text := strings.Replace(schema, usageDay, oldUsageDay, 1)
	if version == 3 {
		text = strings.TrimSuffix(text, schema4)
	}
	for _, q := range []string{postgresDialect(nil, 0).words.Replace(text), "CREATE TABLE schema_version(one BIGINT PRIMARY KEY, version BIGINT NOT NULL)", fmt.Sprintf("INSERT INTO schema_version VALUES(1, %d)", version)} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}
