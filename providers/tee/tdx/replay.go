package tdx

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Event is one that a domain's software measured.
type Event struct {
	IMR     int    `json:"imr"`
	Type    uint32 `json:"event_type"`
	Digest  string `json:"digest"`
	Name    string `json:"event"`
	Payload string `json:"event_payload"`
}

const (
	maxEvents = 4096
	maxLog    = 2 << 20
	// runtimeEvent is one that dstack measured after the start, whose digest says what it is.
	runtimeEvent = 0x08000001
)

// ReadEvents reads an event log: an array, or a text that is one.
func ReadEvents(raw []byte) ([]Event, error) {
	if len(raw) > maxLog {
		return nil, fmt.Errorf("cannot read the event log: it has %d bytes; at most %d are read", len(raw), maxLog)
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '"' {
		var text string
		if err := json.Unmarshal(trimmed, &text); err != nil {
			return nil, errLog
		}
		raw = []byte(text)
	}
	var list []Event
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errLog
	}
	if len(list) > maxEvents {
		return nil, fmt.Errorf("cannot read the event log: it has %d events; at most %d are read", len(list), maxEvents)
	}
	return list, nil
}

var errLog = errors.New("cannot read the event log: it is not an array of events")

// Replay checks that a log is the one that the registers of a quote came about by.
func (b *Body) Replay(log []Event) error {
	var at [4][48]byte
	for i := range log {
		e := &log[i]
		digest, err := hex.DecodeString(e.Digest)
		if e.Type == runtimeEvent {
			own := e.measured()
			if len(digest) > 0 && !bytes.Equal(digest, own) {
				return fmt.Errorf("event %d of the log is not what its digest says", i)
			}
			digest = own // some leave it out
		}
		if err != nil || len(digest) != sha512.Size384 || e.IMR < 0 || e.IMR >= len(at) {
			return fmt.Errorf("event %d of the log is not one of a register", i)
		}
		at[e.IMR] = sha512.Sum384(append(at[e.IMR][:], digest...))
	}
	for i := range at {
		if at[i] != b.RTMR[i] {
			return fmt.Errorf("the log does not come to register %d of the quote", i)
		}
	}
	return nil
}

// measured is the digest of an event of dstack.
func (e *Event) measured() []byte {
	payload, err := hex.DecodeString(e.Payload)
	if err != nil {
		return nil
	}
	h := sha512.New384()
	h.Write(binary.LittleEndian.AppendUint32(nil, e.Type))
	fmt.Fprintf(h, ":%s:", e.Name)
	h.Write(payload)
	return h.Sum(nil)
}

// Value is what an event of dstack says, as hexadecimal digits; empty: there is none.
func Value(log []Event, name string) string {
	for i := range log {
		if log[i].Type == runtimeEvent && log[i].Name == name {
			return log[i].Payload
		}
	}
	return ""
}

// ComposeOf checks that the text of a composition is the one that a domain was started
// with: by the quote's configuration id, which is 1, its hash and zeros.
func (b *Body) ComposeOf(compose []byte) error {
	sum := sha256.Sum256(compose)
	var want [48]byte
	want[0] = 1
	copy(want[1:], sum[:])
	if b.MRConfigID != want {
		return errors.New("the domain was not started with this composition")
	}
	return nil
}
