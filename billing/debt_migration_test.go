package billing

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	// 0.3 and 1 of the limit of 9 are already used.
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
