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
	"slices"
	"strconv"

	"farebox/proxy/scan"
)

// Event is one that a domain's software measured.
type Event struct {
	IMR     int
	Type    uint32
	Digest  string // hexadecimal digits; some leave it out
	Name    string
	Payload string // hexadecimal digits
}

const (
	maxEvents = 4096
	maxLog    = 2 << 20
	maxDepth  = 16
	// runtimeEvent is one that dstack measured after the start; the digest covers its
	// content.
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
	return events(raw)
}

// The members read of a log: each may be there once and in these letters, since clients
// read it with parsers of their own.
var (
	eventShape = scan.NewShape(scan.Members(nil, "imr", "event_type", "digest", "event", "event_payload")...)
	logShape   = scan.NewShape(scan.Members(map[string]*scan.Shape{"event_log": eventShape}, "event_log")...)
)

func events(raw []byte) ([]Event, error) {
	raw = slices.Concat([]byte(`{"event_log":`), raw, []byte("}"))
	var doc scan.Document
	if doc.SkimWhole(raw, logShape, maxDepth) != nil || doc.Members != 1 || doc.Fields[0].Kind != scan.Array {
		return nil, errLog
	}
	n := int(doc.Fields[0].Len)
	if n > maxEvents {
		return nil, fmt.Errorf("cannot read the event log: it has %d events; at most %d are read", n, maxEvents)
	}
	list := make([]Event, 0, n)
	for i := int32(1); i < doc.Fields[0].Next; i = doc.Fields[i].Next {
		if doc.Fields[i].Kind != scan.Object {
			return nil, errLog
		}
		at := members{raw, &doc, i}
		kind := at.number("event_type")
		e := Event{at.number("imr"), uint32(kind), at.text("digest"), at.text("event"), at.text("event_payload")}
		if at.doc == nil {
			return nil, errLog
		}
		list = append(list, e)
	}
	return list, nil
}

// members reads those of one event. doc is nil after an invalid one.
type members struct {
	raw []byte
	doc *scan.Document
	at  int32
}

func (m *members) field(name string) *scan.Field {
	if m.doc == nil {
		return nil
	}
	if at := m.doc.Member(m.at, eventShape.ID(name)); at >= 0 {
		return &m.doc.Fields[at]
	}
	return nil
}

// number must be there.
func (m *members) number(name string) int {
	f := m.field(name)
	if f != nil {
		if n, err := strconv.ParseUint(string(f.Raw(m.raw)), 10, 32); err == nil {
			return int(n)
		}
	}
	m.doc = nil
	return 0
}

// text may be missing, or null.
func (m *members) text(name string) (text string) {
	f := m.field(name)
	if f == nil || f.Kind == scan.Null {
		return ""
	}
	if f.Kind != scan.String || json.Unmarshal(f.Raw(m.raw), &text) != nil {
		m.doc = nil
	}
	return text
}

var errLog = errors.New("cannot read the event log: it is not an array of events")

// Replay checks that a log leads to the registers of a quote.
func (b *Body) Replay(log []Event) error {
	var at [4][48]byte
	for i := range log {
		e := &log[i]
		digest, err := hex.DecodeString(e.Digest)
		if e.Type == runtimeEvent {
			own := e.measured()
			if len(digest) > 0 && !bytes.Equal(digest, own) {
				return fmt.Errorf("event %d of the log does not match its digest", i)
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
			return fmt.Errorf("the log does not match register %d of the quote", i)
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

// Value is the payload of an event of dstack, as hexadecimal digits; empty if absent.
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
