package tdx

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// capture is an attestation of a real service with what Intel published at that time.
type capture struct {
	name       string
	raw        []byte
	quote      string // hexadecimal digits
	nonce      string
	at         time.Time
	collateral *Collateral
}

// captures reads those of TEE_FIXTURES that have a whole quote.
func captures(t testing.TB) (list []capture) {
	t.Helper()
	dir := os.Getenv("TEE_FIXTURES")
	if dir == "" {
		t.Skip("TEE_FIXTURES names no folder of captured attestations")
	}
	files, err := filepath.Glob(filepath.Join(dir, "attestation_*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Nonce       string `json:"_client_nonce"`
			Epoch       int64  `json:"_capture_epoch"`
			Attestation struct {
				Quote string `json:"intel_quote"`
			} `json:"attestation"`
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(strings.Replace(file, "attestation_", "collateral_", 1))
		if err != nil {
			continue // its quote was cut short
		}
		c, err := ParseCollateral(other)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, capture{name: filepath.Base(file), raw: raw, quote: f.Attestation.Quote, nonce: f.Nonce,
			at: time.Unix(f.Epoch, 0), collateral: c})
	}
	if len(list) < 5 {
		t.Fatalf("%d captures in TEE_FIXTURES", len(list))
	}
	return list
}

var strict = &Policy{Root: Intel, Accept: []string{UpToDate}}

// Quotes of real machines hold at the time when they were made.
func TestQuotesOfRealMachinesHold(t *testing.T) {
	t.Parallel()
	for _, c := range captures(t) {
		q, err := ParseHex(c.quote)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		v := q.Verify(c.collateral, strict, c.at)
		for _, check := range v.Checks {
			if check.Err != nil {
				t.Errorf("%s: %s: %v", c.name, check.Name, check.Err)
			}
		}
		if !v.Valid() || v.Status != UpToDate || !v.Until.After(c.at) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// "A bit was changed on the way, and it was still verified": no byte of a quote may be
// another, those of its certificates and lengths among them.
func TestNoByteOfAQuoteMayBeAnother(t *testing.T) {
	t.Parallel()
	for i, c := range captures(t) {
		raw := unhex(t, c.quote)
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
			if q.Verify(c.collateral, strict, c.at).Valid() {
				t.Errorf("%s: byte %d may be %#x instead of %#x", c.name, at, changed[at], raw[at])
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

// Logs of real domains come to the registers of their quotes, and only those.
func TestLogsOfRealDomainsAreReplayed(t *testing.T) {
	t.Parallel()
	replayed, composed := 0, 0
	for _, c := range captures(t) {
		var f struct {
			Attestation struct {
				Log  json.RawMessage `json:"event_log"`
				Info struct {
					Compose string `json:"compose_hash"`
					TCB     struct {
						Compose string `json:"app_compose"`
					} `json:"tcb_info"`
				} `json:"info"`
			} `json:"attestation"`
		}
		if err := json.Unmarshal(c.raw, &f); err != nil || len(f.Attestation.Log) == 0 {
			continue
		}
		q, err := ParseHex(c.quote)
		if err != nil {
			t.Fatal(err)
		}
		log, err := ReadEvents(f.Attestation.Log)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Body.Replay(log); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		replayed++
		for _, change := range []func(e *Event){
			func(e *Event) { e.Payload += "00" }, func(e *Event) { e.Name += "x" }, func(e *Event) { e.IMR = (e.IMR + 1) % 4 },
			func(e *Event) { e.IMR = 4 }, func(e *Event) { e.Digest = "ab" + e.Digest },
		} {
			other := slices.Clone(log)
			change(&other[len(other)-1])
			if q.Body.Replay(other) == nil {
				t.Errorf("%s: its last event may be another: %+v", c.name, other[len(other)-1])
			}
		}
		if q.Body.Replay(log[:len(log)-1]) == nil {
			t.Errorf("%s: its last event may be missing", c.name)
		}
		if text := f.Attestation.Info.TCB.Compose; text != "" {
			composed++
			if got := Value(log, "compose-hash"); got != f.Attestation.Info.Compose {
				t.Errorf("%s: the log has composition %s", c.name, got)
			}
			if err := q.Body.ComposeOf([]byte(text)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if q.Body.ComposeOf([]byte(text+" ")) == nil {
				t.Errorf("%s: another composition", c.name)
			}
		}
	}
	if replayed < 4 || composed == 0 {
		t.Errorf("%d logs, %d compositions", replayed, composed)
	}
}
