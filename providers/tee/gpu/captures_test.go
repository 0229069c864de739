package gpu

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"testing"
	"time"

	"farebox/providers/tee/teetest"
)

// capture is an answer of real devices.
type capture struct {
	name    string
	payload *Payload
	nonce   [32]byte
	at      time.Time
}

func captures(t testing.TB) (list []capture) {
	t.Helper()
	for _, of := range teetest.Captures(t) {
		text := of.Text("nvidia_payload")
		if text == "" {
			continue
		}
		c := capture{name: of.Name, at: of.At}
		if _, err := hex.Decode(c.nonce[:], []byte(of.Nonce)); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.payload, err = Read([]byte(text)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		list = append(list, c)
	}
	if len(list) < 4 {
		t.Fatalf("%d captures have evidence", len(list))
	}
	return list
}

// Answers of real devices are valid, for their nonce alone.
func TestEvidenceOfRealDevicesHolds(t *testing.T) {
	t.Parallel()
	devices := 0
	for _, c := range captures(t) {
		if err := c.payload.Check(c.nonce, NVIDIA, c.at); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		devices += len(c.payload.Evidence)
		other := c.nonce
		other[31] ^= 1
		if err := c.payload.Check(other, NVIDIA, c.at); err == nil {
			t.Errorf("%s: another nonce", c.name)
		}
		copied := *c.payload
		copied.Nonce = hex.EncodeToString(other[:])
		if err := copied.Check(other, NVIDIA, c.at); err == nil {
			t.Errorf("%s: another nonce beside the evidence", c.name)
		}
		if err := c.payload.Check(c.nonce, Root{1}, c.at); err == nil {
			t.Errorf("%s: another root", c.name)
		}
	}
	t.Logf("%d devices", devices)
}

// No byte that a device signed may be changed.
func TestNoByteOfEvidenceMayBeAnother(t *testing.T) {
	t.Parallel()
	c := captures(t)[0]
	e := c.payload.Evidence[0]
	raw, err := base64.StdEncoding.DecodeString(e.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	var known Known
	one := *c.payload
	for at := 0; at < len(raw); at += 5 {
		changed := bytes.Clone(raw)
		changed[at] ^= 1 << (at % 8)
		one.Evidence = []Evidence{{Certificate: e.Certificate, Evidence: base64.StdEncoding.EncodeToString(changed)}}
		if known.Check(&one, c.nonce, NVIDIA, c.at) == nil {
			t.Errorf("byte %d may be %#x instead of %#x", at, changed[at], raw[at])
		}
	}
}
