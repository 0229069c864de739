package tdx

import (
	"encoding/json"
	"strings"
	"testing"
)

// "We replayed one log, and the client another": logs with two readings are rejected.
func TestLogsWithTwoReadings(t *testing.T) {
	t.Parallel()
	one := `{"imr":3,"event_type":134217729,"digest":"00","event":"a","event_payload":"","x":[1]}`
	want := Event{3, runtimeEvent, "00", "a", ""}
	for name, text := range map[string]string{
		"a log":        `[` + one + `]`,
		"a text":       string(must(json.Marshal(`[` + one + `]`))),
		"with spaces":  " [ " + one + " ] ",
		"with escapes": `[` + strings.ReplaceAll(one, `"a"`, `"\u0061"`) + `]`,
		"with nulls":   `[` + strings.ReplaceAll(one, `"event_payload":""`, `"event_payload":null`) + `]`,
	} {
		if list, err := ReadEvents([]byte(text)); err != nil || len(list) != 1 || list[0] != want {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if list, err := ReadEvents([]byte(" [] ")); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	for name, text := range map[string]string{
		"two digests":           `[{"imr":3,"event_type":1,"digest":"00","digest":"01"}]`,
		"one in other letters":  `[{"imr":3,"event_type":1,"digest":"00","Digest":"01"}]`,
		"one with escapes":      `[{"imr":3,"event_type":1,"diges\u0074":"00"}]`,
		"two registers":         `[{"imr":3,"IMR":2,"event_type":1,"digest":"00"}]`,
		"no register":           `[{"event_type":1,"digest":"00"}]`,
		"no type":               `[{"imr":1,"digest":"00"}]`,
		"a register as a text":  `[{"imr":"1","event_type":1,"digest":"00"}]`,
		"half a register":       `[{"imr":1.0,"event_type":1,"digest":"00"}]`,
		"a register below":      `[{"imr":-1,"event_type":1,"digest":"00"}]`,
		"a type too large":      `[{"imr":1,"event_type":4294967297,"digest":"00"}]`,
		"a digest of none":      `[{"imr":1,"event_type":1,"digest":7}]`,
		"an event of none":      `[null]`,
		"a log in a log":        `[[` + one + `]]`,
		"an object":             one,
		"a text of nothing":     `""`,
		"a text of a text":      `"\"[]\""`,
		"nothing":               ``,
		"something behind it":   `[` + one + `],"event_log":[]`,
		"a bracket behind it":   `[` + one + `]}`,
		"another member behind": `[],"x":[]`,
		"very deep":             strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"not UTF-8":             "[{\"imr\":3,\"event_type\":1,\"digest\":\"00\",\"event\":\"\xff\"}]",
		"too many":              `[` + strings.Repeat(one+",", maxEvents) + one + `]`,
	} {
		if list, err := ReadEvents([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// FuzzReadEvents: Go's decoder reads accepted events alike, and no log panics.
func FuzzReadEvents(f *testing.F) {
	for _, s := range []string{`[{"imr":3,"event_type":134217729,"digest":"","event":"a","event_payload":"00"}]`,
		`"[{\"imr\":0,\"event_type\":1,\"digest\":\"` + strings.Repeat("ab", 48) + `\"}]"`, `[]`, `[{}]`, `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ReadEvents(raw)
		if err != nil {
			return
		}
		_ = (&Body{}).Replay(list)
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = []byte(text)
		}
		var other []struct {
			IMR     int    `json:"imr"`
			Type    uint32 `json:"event_type"`
			Digest  string `json:"digest"`
			Name    string `json:"event"`
			Payload string `json:"event_payload"`
		}
		if err := json.Unmarshal(raw, &other); err != nil || len(other) != len(list) {
			t.Fatalf("%d events, and by another %d, %v", len(list), len(other), err)
		}
		for i := range list {
			if list[i] != Event(other[i]) {
				t.Errorf("%+v, and by another %+v", list[i], other[i])
			}
		}
	})
}
