package billing

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

var cursorPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}$`)

// A cursor brings back what it was made of, to its own account and for a while.
func TestCursorIsOfOneAccountAndAWhile(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	f.account("b", usd)
	ka, _ := f.key("a")
	kb, _ := f.key("b")
	a, b := ka.Account, kb.Account
	c := &usageCursor{HistoryQuery{DIEM, 17, 1 << 62, 1000}, usagePosition{1 << 61, 1<<32 - 1, 1<<64 - 1, 12}}
	text := f.makeCursor(a, c)
	if !cursorPattern.MatchString(text) {
		t.Errorf("the cursor is %q", text)
	}
	if got, err := f.readCursor(a, text); err != nil || *got != *c {
		t.Fatalf("%+v came back as %+v, %v", c, got, err)
	}
	for what, bad := range map[string]string{
		"none": "", "short": "AAAA", "no base64": "~", "cut": text[:len(text)-1], "longer": text + "A", "too long": strings.Repeat("A", 513),
		"other base64": base64.StdEncoding.EncodeToString([]byte("?>?>?>?>?>?>?>?>?>?>")),
	} {
		if _, err := f.readCursor(a, bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %v", what, err)
		}
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, err := f.readCursor(a, base64.RawURLEncoding.EncodeToString(raw)); !errors.Is(err, ErrCursor) {
				t.Fatalf("with bit %d of byte %d changed: %v", bit, i, err)
			}
			raw[i] ^= 1 << bit
		}
	}
	if _, err := f.readCursor(b, text); !errors.Is(err, ErrCursor) || !strings.Contains(err.Error(), "another account") {
		t.Errorf("the other account: %v", err)
	}
	f.reopen()
	if _, err := f.readCursor(a, text); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	f.clock.advance(cursorFor - time.Second)
	if _, err := f.readCursor(a, text); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	f.clock.advance(time.Second)
	if _, err := f.readCursor(a, text); !errors.Is(err, ErrCursor) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("at its end: %v", err)
	}
}

// Whatever a client sends as a cursor is refused, unless it was made here.
func FuzzCursor(f *testing.F) {
	l, err := Open(Options{Dir: f.TempDir(), Brand: "svc"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	a := &AccountState{ID: "some account"}
	good := l.makeCursor(a, &usageCursor{HistoryQuery{USD, 1, 2, 3}, usagePosition{4, 5, 6, 7}})
	f.Add(good)
	f.Add(good[:20])
	f.Add(strings.Repeat("_", 512))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := l.readCursor(a, text)
		if (err == nil) != (text == good) || err != nil && !errors.Is(err, ErrCursor) {
			t.Errorf("%q gives %+v, %v", text, c, err)
		}
	})
}
