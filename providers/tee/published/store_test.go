package published

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/tdx"
)

func enclaveAt(t *testing.T, o enclave.Options) (*enclave.Enclave, string, tdx.Root, [6]byte) {
	t.Helper()
	e, err := enclave.New(o)
	if err != nil {
		t.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	root, err := tdx.RootOf(e.Root())
	if err != nil {
		t.Fatal(err)
	}
	return e, base, root, fmspcOf(t, e)
}

func fmspcOf(t *testing.T, e *enclave.Enclave) [6]byte {
	t.Helper()
	raw, err := hex.DecodeString(e.FMSPC())
	if err != nil {
		t.Fatal(err)
	}
	return [6]byte(raw)
}

// A service's data are fetched once for all requests, and checked.
func TestAServiceIsAskedOnce(t *testing.T) {
	t.Parallel()
	e, base, root, fmspc := enclaveAt(t, enclave.Options{})
	s := New(&Service{Base: base + "/pcs", HTTP: http.DefaultClient}, root, zerolog.Nop(), nil)
	defer s.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if c, err := s.Collateral(t.Context(), fmspc, "platform"); err != nil || c == nil {
				t.Error(c, err)
			}
		})
	}
	all.Wait()
	if n := e.Calls("/pcs/tdx/certification/v4/tcb"); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if ends := s.Ends(); ends.Before(time.Now().Add(29 * 24 * time.Hour)) {
		t.Errorf("it ends %s", ends)
	}
	if _, err := s.Collateral(t.Context(), [6]byte{9}, "platform"); err == nil {
		t.Error("of an unpublished kind")
	}
}

// Data signed below another root, or of another kind, are not kept.
func TestForeignDataAreNotKept(t *testing.T) {
	t.Parallel()
	_, base, _, fmspc := enclaveAt(t, enclave.Options{})
	s := New(&Service{Base: base + "/pcs", HTTP: http.DefaultClient}, tdx.Intel, zerolog.Nop(), nil)
	defer s.Close()
	if c, err := s.Collateral(t.Context(), fmspc, "platform"); err == nil || !strings.Contains(err.Error(), "pinned root") {
		t.Error(c, err)
	}
}

// A folder has a file for each kind.
func TestAFolderIsEnough(t *testing.T) {
	t.Parallel()
	e, _, root, fmspc := enclaveAt(t, enclave.Options{})
	file, err := e.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, e.FMSPC()+".json"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(Folder(dir), root, zerolog.Nop(), nil)
	defer s.Close()
	if c, err := s.Collateral(t.Context(), fmspc, ""); err != nil || c == nil {
		t.Error(c, err)
	}
	if _, err := s.Collateral(t.Context(), [6]byte{1}, ""); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// fake is a source of one collateral, which can be away.
type fake struct {
	mu    sync.Mutex
	e     *enclave.Enclave
	away  bool
	asked int
}

func (f *fake) Fetch(context.Context, [6]byte, string) (*tdx.Collateral, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.away {
		return nil, errors.New("nobody answers")
	}
	file, err := f.e.Collateral()
	if err != nil {
		return nil, err
	}
	return tdx.ParseCollateral(file)
}

// "Intel's service was down for a week": kept data are fetched again every day, are valid
// until they end while no answer comes, and not a moment longer.
func TestKeptDataHoldUntilTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := enclave.New(enclave.Options{CollateralFor: 10 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		root, err := tdx.RootOf(e.Root())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(e.FMSPC())
		if err != nil {
			t.Fatal(err)
		}
		fmspc, source := [6]byte(raw), &fake{e: e}
		s := New(source, root, zerolog.Nop(), nil)
		defer s.Close()
		get := func() error {
			_, err := s.Collateral(t.Context(), fmspc, "platform")
			synctest.Wait()
			return err
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		ends := s.Ends()
		time.Sleep(23 * time.Hour)
		if err := get(); err != nil || source.asked != 1 {
			t.Errorf("%v; asked %d times within a day", err, source.asked)
		}
		time.Sleep(2 * time.Hour)
		if err := get(); err != nil || source.asked != 2 || !s.Ends().After(ends) {
			t.Errorf("%v; asked %d times after a day", err, source.asked)
		}
		source.mu.Lock()
		source.away = true
		source.mu.Unlock()
		ends = s.Ends()
		time.Sleep(time.Until(ends) - time.Minute)
		if err := get(); err != nil {
			t.Errorf("%v before it ends", err)
		}
		asked := source.asked
		if err := get(); err != nil || source.asked != asked {
			t.Errorf("%v; asked again at once", err)
		}
		time.Sleep(2 * time.Minute)
		if err := get(); err == nil {
			t.Error("it holds after its end")
		}
		source.mu.Lock()
		source.away = false
		source.mu.Unlock()
		time.Sleep(retryAfter + time.Second)
		if err := get(); err != nil {
			t.Errorf("%v when the service answers again", err)
		}
	})
}

// "The mirror went back to last week, when the hole was not known": older data never
// replace newer valid data.
func TestAMirrorCannotGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		e, err := enclave.New(enclave.Options{CollateralFor: 10 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		old, err := enclave.New(enclave.Options{Share: e, Published: enclave.Published{At: now.Add(-5 * 24 * time.Hour),
			Next: now.Add(20 * 24 * time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		root, err := tdx.RootOf(e.Root())
		if err != nil {
			t.Fatal(err)
		}
		fmspc, source := fmspcOf(t, e), &fake{e: e}
		s := New(source, root, zerolog.Nop(), nil)
		defer s.Close()
		get := func() *tdx.Collateral {
			c, err := s.Collateral(t.Context(), fmspc, "platform")
			synctest.Wait()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := get()
		source.mu.Lock()
		source.e = old
		source.mu.Unlock()
		for range 3 {
			time.Sleep(25 * time.Hour)
			get()
			if get() != first {
				t.Error("it went back")
			}
		}
		if source.asked != 4 {
			t.Errorf("it was asked %d times in three days", source.asked)
		}
		time.Sleep(8 * 24 * time.Hour)
		if c := get(); c == first { // old data are better than expired data
			t.Error("it holds after its end")
		}
	})
}

// Envelopes with two readings are refused.
func TestEnvelopesAreStrict(t *testing.T) {
	t.Parallel()
	if data, sig, err := split([]byte(` {"tcbInfo": {"a":1}, "signature":"00ff"} `), "tcbInfo"); err != nil ||
		string(data) != `{"a":1}` || len(sig) != 2 {
		t.Errorf("%s %x %v", data, sig, err)
	}
	for _, body := range []string{``, `[]`, `{}`, `{"tcbInfo":{}}`, `{"tcbInfo":{},"signature":"0"}`, `{"tcbInfo":{},"signature":1}`,
		`{"tcbInfo":[],"signature":"00"}`, `{"tcbInfo":{},"signature":"00","x":1}`, `{"tcbInfo":{},"TCBINFO":{},"signature":"00"}`,
		`{"tcbInfo":{},"tcbInfo":{},"signature":"00"}`, `{"tcbInfo":{},"signature":"00"}x`, `{"tcbInfo":{},"signature":"00","tcb\u0049nfo":{}}`} {
		if _, _, err := split([]byte(body), "tcbInfo"); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"tcbInfo":{"a":1},"signature":"00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if data, _, err := split(body, "tcbInfo"); err == nil && (len(data) < 2 || data[0] != '{') {
			t.Errorf("%q", data)
		}
	})
}
