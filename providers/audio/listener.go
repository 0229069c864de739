package audio

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Hearing is a recording to transcribe, as routes has checked it. Options that the
// model does not follow are unset.
type Hearing struct {
	Model string // its id here
	// File is a slice of the client's body; Name and Type describe it.
	File        []byte
	Name, Type  string
	Length      time.Duration // as routes has measured it
	Language    string
	Prompt      string
	Temperature string // a number as the client wrote it; empty: absent
	// Detail wanted beside the text.
	Segments, Words, Chars bool
}

// Transcript is the text of a recording, and its times.
type Transcript struct {
	Text     string
	Language string
	// Measured is the length by the upstream; 0: not stated.
	Measured               time.Duration
	Segments, Words, Chars []Heard
}

// Heard is a part of a transcript with its time in seconds.
type Heard struct {
	Text       string
	Start, End float64
	// Detail are further members of a segment as Whisper's models give them, as JSON;
	// nil: absent.
	Detail *Detail
}

// Detail has the confidence of a model. Each is a number as JSON, or empty.
type Detail struct{ Seek, Tokens, Temperature, Probability, Compression, Silence string }

// Listener makes one kind of upstream transcribe. Implementations hold no state.
type Listener interface {
	// Listen makes the request of h for t.
	Listen(r *proxy.Request, h *Hearing, t *Target)
	// Heard reads an answer of 2xx; nil if it is not one.
	Heard(body []byte, h *Hearing) *Transcript
	// Error reads an answer that is a refusal.
	Error(status int, retryAfter time.Duration, body []byte) dialect.Failure
}

// maxHeard bounds the parts of a transcript: every character of a day of speech.
const maxHeard = 4 << 20

// ReadVerbose reads OpenAI's json and verbose_json, which most servers have taken over:
// {text, language, duration, segments, words, usage}. An object without text is not a
// transcript.
func ReadVerbose(body []byte) *Transcript {
	if !gjson.ValidBytes(body) {
		return nil
	}
	o := gjson.ParseBytes(body)
	text := o.Get("text")
	if !o.IsObject() || text.Type != gjson.String {
		return nil
	}
	t := &Transcript{Text: text.Str, Measured: Seconds(o.Get("duration"))}
	if usage := o.Get("usage"); t.Measured == 0 && usage.Get("type").Str == "duration" {
		t.Measured = Seconds(usage.Get("seconds"))
	}
	if language := o.Get("language"); language.Type == gjson.String {
		t.Language = language.Str
	}
	t.Segments = ReadHeard(o.Get("segments"), "text", "start", "end")
	for i, s := range o.Get("segments").Array() {
		if i < len(t.Segments) && s.Get("avg_logprob").Exists() {
			t.Segments[i].Detail = readDetail(s)
		}
	}
	t.Words = ReadHeard(o.Get("words"), "word", "start", "end")
	if len(t.Words) == 0 {
		// Some servers put the words into their segments.
		o.Get("segments").ForEach(func(_, s gjson.Result) bool {
			t.Words = append(t.Words, ReadHeard(s.Get("words"), "word", "start", "end")...)
			return len(t.Words) < maxHeard
		})
	}
	for i := range t.Words { // some servers leave the space before them
		t.Words[i].Text = strings.TrimSpace(t.Words[i].Text)
	}
	return t
}

func readDetail(s gjson.Result) *Detail {
	number := func(name string) string {
		if v := s.Get(name); v.Type == gjson.Number && !math.IsInf(v.Num, 0) {
			return v.Raw
		}
		return ""
	}
	d := &Detail{Seek: number("seek"), Temperature: number("temperature"), Probability: number("avg_logprob"),
		Compression: number("compression_ratio"), Silence: number("no_speech_prob")}
	if tokens := s.Get("tokens"); tokens.IsArray() {
		var list []int64
		if json.Unmarshal([]byte(tokens.Raw), &list) == nil {
			d.Tokens = tokens.Raw
		}
	}
	return d
}

// ReadHeard reads an array of objects with a text and two times in seconds.
func ReadHeard(list gjson.Result, text, start, end string) (parts []Heard) {
	if !list.IsArray() {
		return nil
	}
	list.ForEach(func(_, item gjson.Result) bool {
		if words := item.Get(text); words.Type == gjson.String {
			parts = append(parts, Heard{Text: words.Str, Start: instant(item.Get(start)), End: instant(item.Get(end))})
		}
		return len(parts) < maxHeard
	})
	return parts
}

// instant is a time within a recording; an invalid one is its beginning.
func instant(v gjson.Result) float64 {
	if v.Type != gjson.Number || !(v.Num >= 0 && v.Num <= maxSeconds) {
		return 0
	}
	return v.Num
}

// maxSeconds is beyond the length of any recording.
const maxSeconds = 1e9

// Seconds is a length in an upstream's answer; 0: absent or invalid.
func Seconds(v gjson.Result) time.Duration {
	n := v.Num
	if v.Type == gjson.String { // as some servers write it
		n = gjson.Parse(v.Str).Num
	}
	if !(n > 0 && n <= maxSeconds) {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// ReadNative reads the service's own json (addendum 9.3): {text, duration, timestamps}.
func ReadNative(body []byte) *Transcript {
	t := ReadVerbose(body)
	if t == nil {
		return nil
	}
	times := gjson.GetBytes(body, "timestamps")
	if list := ReadHeard(times.Get("segment"), "text", "start", "end"); len(list) > 0 {
		t.Segments = list
	}
	if list := ReadHeard(times.Get("word"), "word", "start", "end"); len(list) > 0 {
		t.Words = list
	}
	t.Chars = ReadHeard(times.Get("char"), "char", "start", "end")
	return t
}
