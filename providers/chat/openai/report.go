package openai

import (
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Members of stream events that are read when an event is out of the ordinary.
var eventShape = scan.NewShape(
	hasUsage,
	scan.Member{Name: "choices", Child: scan.NewShape(hasUsage)},
	scan.Member{Name: "x_groq", Child: scan.NewShape(hasUsage)},
	scan.Member{Name: "error"},
)

const (
	eventUsage = iota
	eventChoices
	eventGroq
	eventError
)

var eventDocs = sync.Pool{New: func() any { return new(scan.Document) }}

// readUsage reads the usage of an event that has the word. `"usage":null`, in
// every chunk of some upstreams, costs no more than the search. It reports
// whether the event has nothing but usage.
func (s *stream) readUsage(data []byte, at int) (only bool) {
	if at = usageAt(data, at); at < 0 {
		return false
	}
	doc := eventDocs.Get().(*scan.Document)
	defer eventDocs.Put(doc)
	if doc.Skim(data, eventShape) != nil {
		// A strict reader rejects the event; its usage may still be valid.
		if end := jsontext.SkipValue(data, at); end > 0 && dialect.ReadUsage(data[at:end], &s.Last) {
			s.final = s.finished
		}
		return false
	}
	choices := doc.TopIndex(eventChoices)
	found := false
	if i := doc.TopIndex(eventUsage); i >= 0 {
		found = dialect.UsageIn(data, doc, i, &s.Last)
	}
	if choices >= 0 && !found {
		for i := choices + 1; i < doc.Fields[choices].Next && !found; i = doc.Fields[i].Next {
			if u := doc.Member(i, 0); u >= 0 {
				found = dialect.UsageIn(data, doc, u, &s.Last)
			}
		}
	}
	if groq := doc.TopIndex(eventGroq); groq >= 0 && !found {
		if u := doc.Member(groq, 0); u >= 0 {
			found = dialect.UsageIn(data, doc, u, &s.Last)
		}
	}
	empty := choices < 0 || doc.Fields[choices].Len == 0
	if found {
		s.final = s.finished || empty || hasFinish(data)
	}
	return found && empty
}

// usageAt is where the object of a usage member begins, the first one at
// or behind the end of a found name; -1 when none has any.
func usageAt(data []byte, at int) int {
	for at >= 0 {
		at = jsontext.SkipSpace(data, at)
		if at < len(data) && data[at] == ':' {
			if at = jsontext.SkipSpace(data, at+1); at < len(data) && data[at] == '{' {
				return at
			}
		}
		at = find(data, at, usageKey)
	}
	return -1
}

// hasFinish says that some choice of the event has a finish_reason.
func hasFinish(data []byte) bool {
	for at := find(data, 0, finishKey); at >= 0; at = find(data, at, finishKey) {
		if i := jsontext.SkipSpace(data, at); i < len(data) && data[i] == '"' {
			return true
		}
	}
	return false
}

// isError says that an event without a delta is an error report.
func isError(data []byte) bool {
	doc := eventDocs.Get().(*scan.Document)
	defer eventDocs.Put(doc)
	if doc.Skim(data, eventShape) != nil {
		return false
	}
	f, ok := doc.Top(eventError)
	return ok && (f.Kind == scan.Object || f.Kind == scan.String)
}
