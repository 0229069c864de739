package upstream

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scenario says how one request is answered. The zero value is the well-behaved
// answer. Counts that may be 0 on purpose are Count.
type Scenario struct {
	ID string // tag for fail_first and for finding a request in Stats

	Tokens    Count // completion tokens wanted; the request's cap still holds
	Reasoning Count // reasoning tokens before the content
	Tool      string
	Calls     Count  // of the tool, in one answer; 1 unless it says otherwise
	Rounds    Count  // …until so many turns with results of tools stand in the request
	Args      string // of the tool, as JSON in base64url; empty: made of its schema
	Unicode   bool
	Cached    int64 // part of the prompt reported as read from the cache
	Written   int64 // part of the prompt reported as written to the cache
	Big       int64 // bytes of content, produced without holding them
	Dims      int

	Delay          time.Duration // before the first byte
	Gap            time.Duration // between writes of a stream
	EventsPerWrite int
	Chunk          int    // payload bytes a write
	Split          string // utf8, crlf, byte, frame
	CRLF           bool   // \r\n line ends in SSE
	Comments       bool
	Usage          string
	SlowBody       time.Duration // between pieces of a body that is not a stream
	Encoding       string        // gzip
	DupHeaders     int           // 1: repeated alike, 2: two different lengths
	Interim        int           // 100 or 103 before the answer
	Close          bool          // body ends with the connection, no length
	NoDone         bool          // stream ends properly but without [DONE]
	HTML           bool          // error bodies are an HTML page
	Garbage        bool          // not HTTP at all
	Empty          bool          // 200 without a body

	// Of images only.
	Image   string // how the image itself is wrong: blocked, cut, text, gif, missing, escaped, prefixed
	Link    string // fal: where the result says that its images are, as a URL path escape
	Polls   Count  // fal: how often a job is not done yet; default 1
	At      string // fal: which step a status hits: submit (default), status, result, file
	Endless bool   // the body never ends

	// Job is how music and videos go wrong: forget (it is not known any more), double (it is
	// made twice), swallow (it is taken, and the answer lost), fail (it fails in the end),
	// odd (its status is none of the known ones), stuck (it never ends), foreign (addresses
	// lead to another host), wrongtype (the file is none), untyped (its type is not said),
	// refuse_cancel, late_cancel (a cancellation is only asked for: how it ended stands in the
	// status), race (the run begins as it is cancelled), twice (members stand twice), inline (the result is a data URL).
	Job string

	Status     int
	Kind       string // which error: context, policy, quota
	RetryAfter string
	FailFirst  int
	Cut        string // fin, rst
	CutAfter   Count  // tokens of a stream, bytes of a body
	Truncate   bool
	ErrorEvent bool
	ErrorAfter Count
	Hang       bool
	HoldAfter  Count

	// How the answer lies about what it costs, or hides it.
	Hidden    int64         // tokens thought in silence, before the content
	Think     time.Duration // how long that silence lasts
	HiddenIn  string        // where usage tells them: inside (the completion), beside (it), total, nowhere
	ThoughtAs string        // member of visible reasoning: reasoning_content, reasoning, thinking, redacted
	SaidIn    string        // member of the text: content, array, function_call, audio, refusal, unknown
	Draws     int64         // bytes of a picture beside the text, as OpenRouter gives it
	IgnoreCap bool          // the request's cap does not hold
	RunOn     bool          // the answer is produced to its end, and its maker paid, when the peer left
	Wrong     string        // a whole answer with status 200 is no answer: html, text, half, array, bare
	Echo      string        // the whole content, as a URL path escape
	Heard     string        // how many seconds a transcription says that its sound has; none: it does not say
	Finish    string        // of Google's answers: their finishReason; of responses: failed, content_filter
	Hosted    bool          // tools of the server's own that stand in a body of responses are carried out
	Stray     Count         // so many milliseconds after a whole answer a second one follows, unasked
}

// Count is a number that may be absent.
type Count struct {
	N   int
	Set bool
}

// Or is the number, or other when absent.
func (c Count) Or(other int) int {
	if c.Set {
		return c.N
	}
	return other
}

var presets = map[string]string{
	"slow":      "delay_ms=300 gap_ms=40",
	"down":      "status=503",
	"limited":   "status=429 retry_after=1",
	"broken":    "status=500",
	"cut":       "cut=fin",
	"reset":     "cut=rst",
	"hang":      "hang=1",
	"nousage":   "usage=none",
	"split":     "split=byte crlf=1 comments=1",
	"unicode":   "unicode=1 split=utf8",
	"reasoning": "reasoning=8",
	"tool":      "tool=1",
}

// fields maps every key to its setter; the error texts list the keys.
var fields = map[string]func(s *Scenario, v string) error{
	"id":               word(func(s *Scenario) *string { return &s.ID }),
	"tokens":           count(func(s *Scenario) *Count { return &s.Tokens }),
	"reasoning":        count(func(s *Scenario) *Count { return &s.Reasoning }),
	"tool":             word(func(s *Scenario) *string { return &s.Tool }),
	"calls":            count(func(s *Scenario) *Count { return &s.Calls }),
	"args":             readArgs,
	"rounds":           count(func(s *Scenario) *Count { return &s.Rounds }),
	"unicode":          flag(func(s *Scenario) *bool { return &s.Unicode }),
	"cached":           whole(func(s *Scenario) *int64 { return &s.Cached }),
	"cache_write":      whole(func(s *Scenario) *int64 { return &s.Written }),
	"big":              whole(func(s *Scenario) *int64 { return &s.Big }),
	"dims":             number(func(s *Scenario) *int { return &s.Dims }),
	"delay_ms":         millis(func(s *Scenario) *time.Duration { return &s.Delay }),
	"gap_ms":           millis(func(s *Scenario) *time.Duration { return &s.Gap }),
	"events_per_write": number(func(s *Scenario) *int { return &s.EventsPerWrite }),
	"chunk":            number(func(s *Scenario) *int { return &s.Chunk }),
	"split":            oneOf(func(s *Scenario) *string { return &s.Split }, "utf8", "crlf", "byte", "frame"),
	"crlf":             flag(func(s *Scenario) *bool { return &s.CRLF }),
	"comments":         flag(func(s *Scenario) *bool { return &s.Comments }),
	"usage": oneOf(func(s *Scenario) *string { return &s.Usage }, "afterdone", "choices0", "contradict", "early",
		"every", "huge", "late", "less", "negative", "none", "null", "over", "top", "totalonly", "twice", "zero", "zerofirst"),
	"slow_body":   millis(func(s *Scenario) *time.Duration { return &s.SlowBody }),
	"encoding":    oneOf(func(s *Scenario) *string { return &s.Encoding }, "gzip"),
	"dup_headers": number(func(s *Scenario) *int { return &s.DupHeaders }),
	"interim":     number(func(s *Scenario) *int { return &s.Interim }),
	"close":       flag(func(s *Scenario) *bool { return &s.Close }),
	"no_done":     flag(func(s *Scenario) *bool { return &s.NoDone }),
	"html":        flag(func(s *Scenario) *bool { return &s.HTML }),
	"garbage":     flag(func(s *Scenario) *bool { return &s.Garbage }),
	"empty":       flag(func(s *Scenario) *bool { return &s.Empty }),
	"image": oneOf(func(s *Scenario) *string { return &s.Image }, "blocked", "cut", "text", "gif", "missing",
		"escaped", "prefixed"),
	"link":  func(s *Scenario, v string) (err error) { s.Link, err = url.QueryUnescape(v); return err },
	"polls": count(func(s *Scenario) *Count { return &s.Polls }),
	"at":    oneOf(func(s *Scenario) *string { return &s.At }, "submit", "status", "result", "file"),
	"job": oneOf(func(s *Scenario) *string { return &s.Job }, "forget", "double", "swallow", "fail", "odd", "stuck",
		"foreign", "wrongtype", "untyped", "refuse_cancel", "late_cancel", "race", "twice",
		"inline"),
	"endless":     flag(func(s *Scenario) *bool { return &s.Endless }),
	"status":      number(func(s *Scenario) *int { return &s.Status }),
	"kind":        oneOf(func(s *Scenario) *string { return &s.Kind }, "context", "policy", "quota"),
	"retry_after": word(func(s *Scenario) *string { return &s.RetryAfter }),
	"fail_first":  number(func(s *Scenario) *int { return &s.FailFirst }),
	"cut":         oneOf(func(s *Scenario) *string { return &s.Cut }, "fin", "rst"),
	"cut_after":   count(func(s *Scenario) *Count { return &s.CutAfter }),
	"truncate":    flag(func(s *Scenario) *bool { return &s.Truncate }),
	"error_event": flag(func(s *Scenario) *bool { return &s.ErrorEvent }),
	"error_after": count(func(s *Scenario) *Count { return &s.ErrorAfter }),
	"hang":        flag(func(s *Scenario) *bool { return &s.Hang }),
	"hold_after":  count(func(s *Scenario) *Count { return &s.HoldAfter }),
	"hidden":      whole(func(s *Scenario) *int64 { return &s.Hidden }),
	"think_ms":    millis(func(s *Scenario) *time.Duration { return &s.Think }),
	"hidden_in":   oneOf(func(s *Scenario) *string { return &s.HiddenIn }, "inside", "beside", "total", "nowhere"),
	"thought_as": oneOf(func(s *Scenario) *string { return &s.ThoughtAs }, "reasoning_content", "reasoning",
		"thinking", "redacted"),
	"said_in": oneOf(func(s *Scenario) *string { return &s.SaidIn }, "content", "array", "function_call", "audio",
		"refusal", "unknown"),
	"draws":      whole(func(s *Scenario) *int64 { return &s.Draws }),
	"ignore_cap": flag(func(s *Scenario) *bool { return &s.IgnoreCap }),
	"run_on":     flag(func(s *Scenario) *bool { return &s.RunOn }),
	"wrong":      oneOf(func(s *Scenario) *string { return &s.Wrong }, "html", "text", "half", "array", "bare"),
	"finish":     word(func(s *Scenario) *string { return &s.Finish }),
	"echo":       func(s *Scenario, v string) (err error) { s.Echo, err = url.PathUnescape(v); return err },
	"heard":      word(func(s *Scenario) *string { return &s.Heard }),
	"hosted":     flag(func(s *Scenario) *bool { return &s.Hosted }),
	"stray":      count(func(s *Scenario) *Count { return &s.Stray }),
}

// Apply sets the keys of text (separated by spaces, commas or &) on s. A word
// without `=` names a preset.
func (s *Scenario) Apply(text string) error {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '&' }) {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			preset, known := presets[part]
			if !known {
				return fmt.Errorf("cannot read the scenario word %q: write key=value or one of %s", part,
					strings.Join(keys(presets), ", "))
			}
			if err := s.Apply(preset); err != nil {
				return err
			}
			continue
		}
		set, known := fields[key]
		if !known {
			return fmt.Errorf("cannot use the scenario key %q: known keys are %s", key,
				strings.Join(keys(fields), ", "))
		}
		if err := set(s, value); err != nil {
			return fmt.Errorf("cannot use the scenario value %s=%s: %w", key, value, err)
		}
	}
	return nil
}

// ParseScenario reads the key=value form.
func ParseScenario(text string) (Scenario, error) {
	var s Scenario
	err := s.Apply(text)
	return s, err
}

// fault names the misbehaviour for the statistics; "" when there is none.
func (s *Scenario) fault() string {
	switch {
	case s.Hang:
		return "hang"
	case s.Status >= 400:
		return "status=" + strconv.Itoa(s.Status)
	case s.Cut != "":
		return "cut=" + s.Cut
	case s.Truncate:
		return "truncate"
	case s.ErrorEvent:
		return "error_event"
	case s.HoldAfter.Set:
		return "hold"
	case s.Usage != "":
		return "usage=" + s.Usage
	case s.Garbage:
		return "garbage"
	case s.Hidden > 0:
		return "hidden=" + cmp.Or(s.HiddenIn, "inside")
	case s.SaidIn != "":
		return "said_in=" + s.SaidIn
	case s.IgnoreCap:
		return "ignore_cap"
	}
	return ""
}

var (
	simOpen  = []byte("[[sim ")
	simClose = []byte("]]")
)

// directive finds `[[sim …]]` in a text.
func directive(text []byte) (string, bool) {
	_, rest, ok := bytes.Cut(text, simOpen)
	if !ok {
		return "", false
	}
	inside, _, ok := bytes.Cut(rest, simClose)
	return string(inside), ok
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// setter makes a field's setter of what reads its value.
func setter[T any](at func(*Scenario) *T, read func(string) (T, error)) func(*Scenario, string) error {
	return func(s *Scenario, v string) (err error) {
		value, err := read(v)
		if err == nil {
			*at(s) = value
		}
		return err
	}
}

func readWhole(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("a whole number from 0 is needed")
	}
	return n, nil
}

func word(at func(*Scenario) *string) func(*Scenario, string) error {
	return setter(at, func(v string) (string, error) { return v, nil })
}

// readArgs takes JSON in base64url, since directives have no spaces.
func readArgs(s *Scenario, v string) error {
	args, err := base64.RawURLEncoding.DecodeString(v)
	if err != nil || !json.Valid(args) {
		return errors.New("it is no JSON in base64url")
	}
	s.Args = string(args)
	return nil
}

func whole(at func(*Scenario) *int64) func(*Scenario, string) error { return setter(at, readWhole) }

func number(at func(*Scenario) *int) func(*Scenario, string) error {
	return setter(at, func(v string) (int, error) {
		n, err := readWhole(v)
		return int(n), err
	})
}

func count(at func(*Scenario) *Count) func(*Scenario, string) error {
	return setter(at, func(v string) (Count, error) {
		n, err := readWhole(v)
		return Count{N: int(n), Set: true}, err
	})
}

func millis(at func(*Scenario) *time.Duration) func(*Scenario, string) error {
	return setter(at, func(v string) (time.Duration, error) {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= 0 && f < 1e9) {
			return 0, errors.New("milliseconds from 0 are needed")
		}
		return time.Duration(f * float64(time.Millisecond)), nil
	})
}

func flag(at func(*Scenario) *bool) func(*Scenario, string) error {
	return setter(at, func(v string) (bool, error) {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return false, errors.New("1 or 0 is needed")
		}
		return b, nil
	})
}

func oneOf(at func(*Scenario) *string, allowed ...string) func(*Scenario, string) error {
	return setter(at, func(v string) (string, error) {
		if !slices.Contains(allowed, v) {
			return "", errors.New("one of " + strings.Join(allowed, ", ") + " is needed")
		}
		return v, nil
	})
}
