package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recordingOf is a small recording, made at a time and with identifiers of its own.
func recordingOf(start time.Time, seed int, change func(text string) string) *recording {
	id := fmt.Sprintf("%032x", 1000+seed)
	uuid := fmt.Sprintf("%08x-42d7-472e-b0fd-7a5e17c7fb42", seed)
	secret := fmt.Sprintf("SVC_INFERENCE_KEY_%043d", seed)
	address := fmt.Sprintf("127.0.0.1:%d", 20000+seed)
	r := &recording{Start: start, End: start.Add(time.Minute), Names: map[string]string{address: "<gateway>"}}
	at := start.Add(3 * time.Second).UTC()
	add := func(name string, parts ...string) {
		e := &entry{Name: name}
		for i := 0; i < len(parts); i += 2 {
			text := parts[i+1]
			if change != nil {
				text = change(text)
			}
			e.add(parts[i], []byte(text))
		}
		r.Entries = append(r.Entries, e)
	}
	body := `{"error":"No such model","code":"MODEL_NOT_FOUND","usage":{"took_ms":` + strings.Repeat("1", 1+seed%5) +
		`},"created":` + fmt.Sprint(at.Unix()) + `}`
	add("0001 a refusal", "sent", "POST /x HTTP/1.1\r\nAuthorization: Bearer "+secret+"\r\n\r\n{}",
		"head", "HTTP/1.1 404 Not Found\r\nDate: "+at.Format("Mon, 02 Jan 2006 15:04:05 GMT")+
			fmt.Sprintf("\r\nContent-Length: %d\r\n", len(body))+"X-Request-Id: "+id+"\r\nCf-Ray: "+id+
			"\r\nX-Svc-Version: "+at.Format("20060102.150405")+"\r\nX-Svc-Balance-Usd: 5\r\n\r\n",
		"body", body, "asked models", "POST /v1/x HTTP/1.1\r\nHost: "+address+
			"\r\nContent-Length: 9\r\n\r\n{\"n\":1.5}")
	add("0002 a charge", "head", "HTTP/1.1 200 OK\r\nX-Svc-Balance-Usd: 4.998991\r\n\r\n",
		"body", `{"keys":[{"id":"`+uuid+`","createdAt":"`+at.Format("2006-01-02T15:04:05.000Z")+
			`","expiresAt":"2091-01-01T00:00:00.000Z","amount":0.001009}],"day":"`+at.Format(time.DateOnly)+`"}`)
	add("0003 a list", "stdout", uuid+"  rich  live\n", "asked nodes",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_call"}`, 5679721513993650+seed), "log",
		`{"request_id":"`+id+`","time":"`+at.Format(time.RFC3339Nano)+`"}`)
	return r
}

var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

func TestRunsThatDifferInIdsAndTimesAreAlike(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a, b := recordingOf(noon, 1, nil), recordingOf(noon.Add(50*time.Hour), 234, nil)
	if n := diff(&out, a, b, 10, nil); n != 0 {
		t.Errorf("%d entries differ:\n%s", n, out.String())
	}
}

// Each of these is a behaviour that changed, and is found in just one entry.
func TestChangesAreFound(t *testing.T) {
	t.Parallel()
	id := fmt.Sprintf("%032x", 1001)
	for _, c := range []struct{ name, old, with, shown string }{
		{"an error text", "No such model", "No such Model", "Model"},
		{"a code", "MODEL_NOT_FOUND", "NOT_FOUND", "[body]"},
		{"a status", "404 Not Found", "400 Bad Request", "[head]"},
		{"the spelling of a header", "X-Request-Id", "X-Request-ID", "ID"},
		{"the order of headers", "X-Request-Id: " + id + "\r\nCf-Ray", "Cf-Ray: " + id + "\r\nX-Request-Id", "Cf-Ray"},
		{"another id in the second place", "Cf-Ray: " + id, "Cf-Ray: " + strings.Repeat("7", 32), "<id 2>"},
		{"an id that is no other's", `"request_id":"` + id, `"request_id":"` + strings.Repeat("7", 32), "[log]"},
		{"a price", "0.001009", "0.001010", "0.00101"},
		{"a charge", "4.998991", "4.998990", "1010000 nano"},
		{"the form of a time", ".000Z", "Z", "000Z"},
		{"a time that was configured", "2091-01-01", "2091-01-02", "2091"},
		{"a yesterday for a today", `"day":"2031-05-04"`, `"day":"2031-05-03"`, "day -1"},
		{"the order of members", `"code":"MODEL_NOT_FOUND","usage"`, `"usage"`, "[body]"},
		{"what an upstream is asked", `{"n":1.5}`, `{"n":1.50}`, "[asked models]"},
		{"a wrong length", "Content-Length: 9", "Content-Length: 8", "[asked models]"},
		{"a line of a command", "rich  live", "rich  revoked", "[stdout]"},
	} {
		var out strings.Builder
		changed := recordingOf(noon, 1, func(text string) string { return strings.ReplaceAll(text, c.old, c.with) })
		if n := diff(&out, recordingOf(noon, 1, nil), changed, 10, nil); n != 1 ||
			!strings.Contains(out.String(), c.shown) {
			t.Errorf("%s: %d entries differ, and it says:\n%s", c.name, n, out.String())
		}
	}
}

func TestAnotherOrderAndMissingEntriesAreFound(t *testing.T) {
	t.Parallel()
	a, b := recordingOf(noon, 1, nil), recordingOf(noon, 1, nil)
	b.Entries[0], b.Entries[1] = b.Entries[1], b.Entries[0]
	if n := diff(io.Discard, a, b, 10, nil); n < 2 {
		t.Errorf("entries that changed places: %d differ", n)
	}
	b = recordingOf(noon, 1, nil)
	b.Entries = b.Entries[:2]
	var out strings.Builder
	if n := diff(&out, a, b, 10, nil); n != 1 || !strings.Contains(out.String(), "only in the first: 0003") {
		t.Errorf("%d differ:\n%s", n, out.String())
	}
	if n := diff(io.Discard, a, recordingOf(noon, 1, func(s string) string {
		return strings.Replace(s, "rich", "poor", 1)
	}), 10, map[string]bool{"stdout": true}); n != 0 {
		t.Errorf("%d differ in parts that are not compared", n)
	}
}

// A recording is the same after it was written and read, and other files are named.
func TestRecordingsAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.rec"), filepath.Join(dir, "b.rec")
	if err := recordingOf(noon, 1, nil).write(first); err != nil {
		t.Fatal(err)
	}
	if err := recordingOf(noon.Add(time.Hour), 2, nil).write(second); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"-diff", first, second}, &out); err != nil ||
		!strings.Contains(out.String(), "3 entries, all alike") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := recordingOf(noon, 2, strings.ToUpper).write(second); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-diff", first, second}, &out); err == nil ||
		!strings.Contains(err.Error(), "of 3 entries differ") {
		t.Errorf("recordings that differ: %v", err)
	}
	if err := run([]string{"-diff", first, filepath.Join(dir, "none")}, &out); err == nil {
		t.Error("a file that is not there is compared")
	}
	if err := run([]string{"-out", first}, &out); err == nil || !strings.Contains(err.Error(), "BINARY") {
		t.Errorf("no binary: %v", err)
	}
}
