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
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scenario says how one request is answered. The zero value is the well-behaved
// answer. Counts that may be 0 on purpose are Count.
type Scenario struct {
	ID string `key:"id"` // tag for fail_first and for finding a request in Stats

	Tokens    Count  `key:"tokens"`    // completion tokens wanted; the request's cap still holds
	Reasoning Count  `key:"reasoning"` // reasoning tokens before the content
	Tool      string `key:"tool"`
	Calls     Count  `key:"calls"`          // of the tool, in one answer; 1 unless it says otherwise
	Rounds    Count  `key:"rounds"`         // …until so many turns with results of tools are in the request
	Args      string `key:"args" as:"args"` // of the tool, as JSON in base64url; empty: made of its schema
	Unicode   bool   `key:"unicode"`
	Cached    int64  `key:"cached"`      // part of the prompt reported as read from the cache
	Written   int64  `key:"cache_write"` // part of the prompt reported as written to the cache
	Big       int64  `key:"big"`         // bytes of content, produced without holding them
	Dims      int    `key:"dims"`

	Delay          time.Duration `key:"delay_ms"` // before the first byte
	Gap            time.Duration `key:"gap_ms"`   // between writes of a stream
	EventsPerWrite int           `key:"events_per_write"`
	Chunk          int           `key:"chunk"` // payload bytes a write
	Split          string        `key:"split" of:"utf8 crlf byte frame"`
	CRLF           bool          `key:"crlf"` // \r\n line ends in SSE
	Comments       bool          `key:"comments"`
	Usage          string        `key:"usage" of:"afterdone choices0 contradict early every huge late less negative none null over top totalonly twice zero zerofirst"`
	SlowBody       time.Duration `key:"slow_body"` // between pieces of a body that is not a stream
	Encoding       string        `key:"encoding" of:"gzip"`
	DupHeaders     int           `key:"dup_headers"` // 1: repeated alike, 2: two different lengths
	Interim        int           `key:"interim"`     // 100 or 103 before the answer
	Close          bool          `key:"close"`       // body ends with the connection, no length
	NoDone         bool          `key:"no_done"`     // stream ends properly but without [DONE]
	HTML           bool          `key:"html"`        // error bodies are an HTML page
	Garbage        bool          `key:"garbage"`     // not HTTP at all
	Empty          bool          `key:"empty"`       // 200 without a body

	// Of images only.
	Image   string `key:"image" of:"blocked cut text gif missing escaped prefixed"` // the fault of the image itself
	Link    string `key:"link" as:"query"`                                          // fal: where the result says that its images are, as a URL path escape
	Polls   Count  `key:"polls"`                                                    // fal: how often a job is not done yet; default 1
	At      string `key:"at" of:"submit status result file"`                        // which step a status hits; default submit
	Endless bool   `key:"endless"`                                                  // the body never ends

	// Job is a fault of a music or video job: forget (the job becomes unknown), double (it runs twice), swallow (it
	// is accepted, and the answer lost), fail (it fails at its end), odd (its status has an unknown name), stuck (it
	// never ends), foreign (addresses lead to another host), wrongtype (the result is not a media file), untyped (the
	// result has no type), refuse_cancel, late_cancel (a cancellation is only accepted; the status has its outcome),
	// race (the run begins during its cancellation), twice (members come twice), inline (the result is a data URL).
	Job string `key:"job" of:"forget double swallow fail odd stuck foreign wrongtype untyped refuse_cancel late_cancel race twice inline"`

	Status     int    `key:"status"`
	Kind       string `key:"kind" of:"context policy quota"` // which error
	RetryAfter string `key:"retry_after"`
	FailFirst  int    `key:"fail_first"`
	Cut        string `key:"cut" of:"fin rst"`
	CutAfter   Count  `key:"cut_after"` // tokens of a stream, bytes of a body
	Truncate   bool   `key:"truncate"`
	ErrorEvent bool   `key:"error_event"`
	ErrorAfter Count  `key:"error_after"`
	Hang       bool   `key:"hang"`
	HoldAfter  Count  `key:"hold_after"`

	// How the answer misstates its cost, or hides it. RunOn: it is produced to its end, and its
	// maker paid, when the peer left. Heard is how many seconds a transcription says that its sound has
	// (none: it does not say), Finish the finishReason of Google's answers, and of responses failed or
	// content_filter. Hosted: tools of the server's own in a body of responses are carried out. Stray: so
	// many milliseconds after a whole answer a second one follows, unasked.
	Hidden    int64         `key:"hidden"`                                                         // tokens thought in silence, before the content
	Think     time.Duration `key:"think_ms"`                                                       // how long that silence lasts
	HiddenIn  string        `key:"hidden_in" of:"inside beside total nowhere"`                     // its place in usage; total: there alone
	ThoughtAs string        `key:"thought_as" of:"reasoning_content reasoning thinking redacted"`  // member of visible reasoning
	SaidIn    string        `key:"said_in" of:"content array function_call audio refusal unknown"` // member of the text
	Draws     int64         `key:"draws"`                                                          // bytes of a picture beside the text, as OpenRouter gives it
	IgnoreCap bool          `key:"ignore_cap"`                                                     // the request's cap does not hold
	RunOn     bool          `key:"run_on"`
	Wrong     string        `key:"wrong" of:"html text half array bare"` // a whole answer with status 200 is not an answer
	Echo      string        `key:"echo" as:"path"`                       // the whole content, as a URL path escape
	Heard     string        `key:"heard"`
	Finish    string        `key:"finish"`
	Hosted    bool          `key:"hosted"`
	Stray     Count         `key:"stray"`
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

// field is the place of a key's value, and its allowed values.
type field struct {
	at int
	of []string // allowed words; nil: any value of its type
	as string   // how a text is written: args, query, path; empty: as it is
}

// fields are those of a Scenario by their keys; the error texts list the keys.
var fields = func() map[string]field {
	all := map[string]field{}
	t := reflect.TypeFor[Scenario]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		all[tag.Get("key")] = field{at: i, of: strings.Fields(tag.Get("of")), as: tag.Get("as")}
	}
	return all
}()

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
		f, known := fields[key]
		if !known {
			return fmt.Errorf("cannot use the scenario key %q: known keys are %s", key,
				strings.Join(keys(fields), ", "))
		}
		if err := f.set(s, value); err != nil {
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

// fault names the misbehaviour for the statistics; "" if absent.
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

// set reads a value for a field.
func (f field) set(s *Scenario, v string) (err error) {
	switch to := reflect.ValueOf(s).Elem().Field(f.at).Addr().Interface().(type) {
	case *string:
		*to, err = f.text(v)
	case *bool:
		if *to, err = strconv.ParseBool(v); err != nil {
			return errors.New("1 or 0 is needed")
		}
	case *int64:
		*to, err = readWhole(v)
	case *int:
		n, err := readWhole(v)
		*to = int(n)
		return err
	case *Count:
		n, err := readWhole(v)
		*to = Count{N: int(n), Set: err == nil}
		return err
	case *time.Duration:
		ms, err := strconv.ParseFloat(v, 64)
		if err != nil || !(ms >= 0 && ms < 1e9) {
			return errors.New("milliseconds from 0 are needed")
		}
		*to = time.Duration(ms * float64(time.Millisecond))
	}
	return err
}

// text reads a value that is a text. JSON is in base64url, since directives have no spaces.
func (f field) text(v string) (string, error) {
	switch f.as {
	case "args":
		args, err := base64.RawURLEncoding.DecodeString(v)
		if err != nil || !json.Valid(args) {
			return "", errors.New("it is not JSON in base64url")
		}
		return string(args), nil
	case "query":
		return url.QueryUnescape(v)
	case "path":
		return url.PathUnescape(v)
	}
	if len(f.of) > 0 && !slices.Contains(f.of, v) {
		return "", errors.New("one of " + strings.Join(f.of, ", ") + " is needed")
	}
	return v, nil
}

func readWhole(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("a whole number from 0 is needed")
	}
	return n, nil
}
