package report

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

var cursorPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}$`)

// fixedSource has a clock and a secret.
type fixedSource struct {
	Source
	nowNs int64
}

func (s *fixedSource) Now() int64 { return s.nowNs }

func (s *fixedSource) Sign(text []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte("a secret"), text...))
}

// A cursor returns its position, to its own account and for a limited time.
func TestCursorIsOfOneAccountAndAWhile(t *testing.T) {
	clock := &fixedSource{nowNs: 1_800_000_000 * int64(time.Second)}
	a, b := Account{Reports: New(clock), ID: "a"}, Account{Reports: New(clock), ID: "b"}
	c := &cursor{HistoryQuery{money.DIEM, 17, 1 << 62, 1000}, Position{1 << 61, 1<<32 - 1, 1<<64 - 1, 12}, store.Pruned{Day: 20778, Steps: 1 << 62}}
	text := a.makeCursor(c)
	if !cursorPattern.MatchString(text) {
		t.Errorf("the cursor is %q", text)
	}
	if got, err := a.readCursor(text); err != nil || *got != *c {
		t.Fatalf("%+v came back as %+v, %v", c, got, err)
	}
	for what, bad := range map[string]string{
		"none": "", "short": "AAAA", "no base64": "~", "cut": text[:len(text)-1], "longer": text + "A",
		"too long":     strings.Repeat("A", 513),
		"other base64": base64.StdEncoding.EncodeToString([]byte("?>?>?>?>?>?>?>?>?>?>")),
	} {
		if _, err := a.readCursor(bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %v", what, err)
		}
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, err := a.readCursor(base64.RawURLEncoding.EncodeToString(raw)); !errors.Is(err, ErrCursor) {
				t.Fatalf("with bit %d of byte %d changed: %v", bit, i, err)
			}
			raw[i] ^= 1 << bit
		}
	}
	if _, err := b.readCursor(text); !errors.Is(err, ErrCursor) || !strings.Contains(err.Error(), "another account") {
		t.Errorf("the other account: %v", err)
	}
	a = Account{Reports: New(clock), ID: "a"}
	if _, err := a.readCursor(text); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	clock.nowNs += int64(cursorFor - time.Second)
	if _, err := a.readCursor(text); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	clock.nowNs += int64(time.Second)
	if _, err := a.readCursor(text); !errors.Is(err, ErrCursor) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("at its end: %v", err)
	}
}

// A cursor is refused unless it was made here.
func FuzzCursor(f *testing.F) {
	a := Account{Reports: New(&fixedSource{nowNs: time.Now().UnixNano()}), ID: "some account"}
	good := a.makeCursor(&cursor{HistoryQuery{money.USD, 1, 2, 3}, Position{4, 5, 6, 7}, store.Pruned{}})
	f.Add(good)
	f.Add(good[:20])
	f.Add(strings.Repeat("_", 512))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := a.readCursor(text)
		if (err == nil) != (text == good) || err != nil && !errors.Is(err, ErrCursor) {
			t.Errorf("%q gives %+v, %v", text, c, err)
		}
	})
}
