package tdx

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/providers/tee/teetest"
)

// capture is an attestation of a real service with Intel's data of that time.
type capture struct {
	teetest.Capture
	collateral *Collateral
}

// captures are those that have a whole quote.
func captures(t testing.TB) (list []capture) {
	t.Helper()
	for _, c := range teetest.Captures(t) {
		if c.Collateral == nil {
			continue
		}
		of, err := ParseCollateral(c.Collateral)
		if err != nil {
			t.Fatal(err)
		}
		of.kept = &verifiedCollateral{} // each is asked about thousands of times
		list = append(list, capture{c, of})
	}
	return list
}

var strict = &Policy{Root: Intel, Accept: []string{UpToDate}}

// Quotes of real machines hold at the time when they were made.
func TestQuotesOfRealMachinesHold(t *testing.T) {
	t.Parallel()
	for _, c := range captures(t) {
		q, err := ParseHex(c.Text("intel_quote"))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		v := q.Verify(c.collateral, strict, c.At)
		for _, check := range v.Checks {
			if check.Err != nil {
				t.Errorf("%s: %s: %v", c.Name, check.Name, check.Err)
			}
		}
		if !v.Valid() || v.Status != UpToDate || !v.Until.After(c.At) {
			t.Errorf("%s: %+v", c.Name, v)
		}
	}
}

// "A bit was changed on the way, and it was still verified": no byte of a quote may be
// another, those of its certificates and lengths among them.
func TestNoByteOfAQuoteMayBeAnother(t *testing.T) {
	t.Parallel()
	for i, c := range captures(t) {
		raw := unhex(t, c.Text("intel_quote"))
		end := quoteEnd(t, raw)
		step := 7 // in turn, so that all captures together have each
		if testing.Short() {
			step = 97
		}
		for at := i; at < end; at += step {
			changed := bytes.Clone(raw)
			changed[at] ^= 1 << (at % 8)
			q, err := Parse(changed)
			if err != nil {
				continue
			}
			if q.Verify(c.collateral, strict, c.At).Valid() {
				t.Errorf("%s: byte %d may be %#x instead of %#x", c.Name, at, changed[at], raw[at])
			}
		}
	}
}

// quoteEnd is where the padding of a quote begins.
func quoteEnd(t *testing.T, raw []byte) int {
	t.Helper()
	n := headerBytes + bodyBytes
	return n + 4 + int(binary.LittleEndian.Uint32(raw[n:]))
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Logs of real domains replay to the registers of their quotes, and only those.
func TestLogsOfRealDomainsAreReplayed(t *testing.T) {
	t.Parallel()
	replayed, composed := 0, 0
	for _, c := range captures(t) {
		logged := gjson.GetBytes(c.Report, "event_log")
		if !logged.Exists() {
			continue
		}
		q, err := ParseHex(c.Text("intel_quote"))
		if err != nil {
			t.Fatal(err)
		}
		log, err := ReadEvents([]byte(logged.Raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Body.Replay(log); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		replayed++
		for _, change := range []func(e *Event){
			func(e *Event) { e.Payload += "00" }, func(e *Event) { e.Name += "x" }, func(e *Event) { e.IMR = (e.IMR + 1) % 4 },
			func(e *Event) { e.IMR = 4 }, func(e *Event) { e.Digest = "ab" + e.Digest },
		} {
			other := slices.Clone(log)
			change(&other[len(other)-1])
			if q.Body.Replay(other) == nil {
				t.Errorf("%s: its last event may be another: %+v", c.Name, other[len(other)-1])
			}
		}
		if q.Body.Replay(log[:len(log)-1]) == nil {
			t.Errorf("%s: its last event may be missing", c.Name)
		}
		if text := c.Text("info.tcb_info.app_compose"); text != "" {
			composed++
			if got := Value(log, "compose-hash"); got != c.Text("info.compose_hash") {
				t.Errorf("%s: the log has composition %s", c.Name, got)
			}
			if err := q.Body.ComposeOf([]byte(text)); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if q.Body.ComposeOf([]byte(text+" ")) == nil {
				t.Errorf("%s: another composition", c.Name)
			}
		}
	}
	if replayed < 4 || composed == 0 {
		t.Errorf("%d logs, %d compositions", replayed, composed)
	}
}
