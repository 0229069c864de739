package audio

import (
	"math"
	"strconv"
	"strings"
	"time"

	"farebox/providers/audio"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

const (
	plainText   = "text/plain; charset=utf-8"
	eventStream = "text/event-stream"
	subRip      = "application/x-subrip; charset=utf-8"
	webVTT      = "text/vtt; charset=utf-8"
)

// compose makes the answer in the form that the client wants.
func (t *transcription) compose() (body []byte, contentType string) {
	switch {
	case t.form.stream:
		return t.appendEvents(nil), eventStream
	case t.form.format == "text":
		return []byte(t.heard.Text), plainText
	case t.link != "":
		return t.appendFilmed(nil), routes.JSONType
	case t.form.format == "srt":
		return t.appendCues(nil, ','), subRip
	case t.form.format == "vtt":
		return t.appendCues([]byte("WEBVTT\n\n"), '.'), webVTT
	case t.form.format == "verbose_json":
		return t.appendVerbose(nil), routes.JSONType
	}
	return t.appendJSON(nil), routes.JSONType
}

// appendJSON is {text, duration, timestamps, usage} (addendum 9.3).
func (t *transcription) appendJSON(b []byte) []byte {
	b = jsontext.Object(append(b, '{')).Text("text", t.heard.Text)
	b = appendSeconds(append(b, `,"duration":`...), t.length.Seconds())
	if t.form.times {
		b = append(b, `,"timestamps":{`...)
		first := true
		for _, kind := range [...]struct {
			name, text string
			wanted     bool
			list       []audio.Heard
		}{
			{"word", "word", t.hearing.Words, t.heard.Words},
			{"segment", "text", t.wants("segment"), t.heard.Segments},
			{"char", "char", t.hearing.Chars, t.heard.Chars},
		} {
			if !kind.wanted {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(append(b, '"'), kind.name...), `":`...)
			b = appendParts(b, kind.text, kind.list)
		}
		b = append(b, '}')
	}
	return append(t.appendUsage(b), '}')
}

// wants says that the client asked for a kind of times.
func (t *transcription) wants(kind string) bool {
	if !t.spec.Capabilities.Gives(kind) {
		return false
	}
	for _, k := range t.form.kinds {
		if k == kind {
			return true
		}
	}
	return len(t.form.kinds) == 0
}

// appendUsage appends the usage in OpenAI's form for charges by the second.
func (t *transcription) appendUsage(b []byte) []byte {
	b = strconv.AppendInt(append(b, `,"usage":{"type":"duration","seconds":`...), t.seconds, 10)
	return append(b, '}')
}

func appendParts(b []byte, name string, list []audio.Heard) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"`...), name...), `":`...)
		b = appendTimes(jsontext.AppendString(b, list[i].Text), &list[i])
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendTimes(b []byte, h *audio.Heard) []byte {
	b = appendSeconds(append(b, `,"start":`...), h.Start)
	return appendSeconds(append(b, `,"end":`...), h.End)
}

// appendSeconds writes seconds to the millisecond.
func appendSeconds(b []byte, s float64) []byte {
	return strconv.AppendFloat(b, math.Round(s*1000)/1000, 'f', -1, 64)
}

// segments are those of the transcript; a model that gave none has heard all at once.
func (t *transcription) segments() []audio.Heard {
	if len(t.heard.Segments) > 0 || t.heard.Text == "" {
		return t.heard.Segments
	}
	return []audio.Heard{{Text: t.heard.Text, End: t.length.Seconds()}}
}

// appendVerbose is OpenAI's verbose_json.
func (t *transcription) appendVerbose(b []byte) []byte {
	b = jsontext.AppendString(append(b, `{"task":"transcribe","language":`...), t.heard.Language)
	b = appendSeconds(append(b, `,"duration":`...), t.length.Seconds())
	b = jsontext.Object(b).Text("text", t.heard.Text)
	b = append(b, `,"segments":[`...)
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	for i, s := range t.segments() {
		if i > 0 {
			b = append(b, ',')
		}
		d := s.Detail
		if d == nil {
			d = &audio.Detail{}
		}
		b = jsontext.Object(append(b, '{')).Int("id", int64(i))
		b = append(append(b, `,"seek":`...), or(d.Seek, "0")...)
		b = appendTimes(b, &s)
		b = jsontext.Object(b).Text("text", s.Text)
		b = append(append(b, `,"tokens":`...), or(d.Tokens, "[]")...)
		b = append(append(b, `,"temperature":`...), or(d.Temperature, "0")...)
		b = append(append(b, `,"avg_logprob":`...), or(d.Probability, "0")...)
		b = append(append(b, `,"compression_ratio":`...), or(d.Compression, "0")...)
		b = append(append(append(b, `,"no_speech_prob":`...), or(d.Silence, "0")...), '}')
	}
	b = append(b, ']')
	if t.hearing.Words {
		b = appendParts(append(b, `,"words":`...), "word", t.heard.Words)
	}
	return append(t.appendUsage(b), '}')
}

// appendEvents is the transcript as the stream that OpenAI's packages read. It is whole when its
// first event leaves: a client that pays by the second pays for all of it.
func (t *transcription) appendEvents(b []byte) []byte {
	rest := t.heard.Text
	for _, s := range t.segments() {
		// The deltas make the text, whatever the segments say.
		delta := rest
		if at := strings.Index(rest, strings.TrimSpace(s.Text)); at >= 0 && strings.TrimSpace(s.Text) != "" {
			delta = rest[:at+len(strings.TrimSpace(s.Text))]
		}
		b = appendDelta(b, delta)
		rest = rest[len(delta):]
	}
	b = appendDelta(b, rest)
	b = jsontext.AppendString(append(b, `data: {"type":"transcript.text.done","text":`...), t.heard.Text)
	return append(append(t.appendUsage(b), '}'), "\n\n"...)
}

func appendDelta(b []byte, text string) []byte {
	if text == "" {
		return b
	}
	return append(jsontext.AppendString(append(b, `data: {"type":"transcript.text.delta","delta":`...), text), "}\n\n"...)
}

// appendCues writes subtitles: SubRip with a comma in its times, WebVTT with a point.
func (t *transcription) appendCues(b []byte, point byte) []byte {
	n := 0
	for _, s := range t.segments() {
		text := cueText(s.Text)
		if text == "" {
			continue
		}
		n++
		if point == ',' {
			b = append(strconv.AppendInt(b, int64(n), 10), '\n')
		}
		b = appendClock(b, s.Start, point)
		b = append(b, " --> "...)
		b = appendClock(b, max(s.End, s.Start), point)
		b = append(append(append(b, '\n'), text...), "\n\n"...)
	}
	return b
}

// cueText is a text that cannot end its cue: without empty lines and arrows.
func cueText(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	kept := lines[:0]
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, strings.ReplaceAll(line, "-->", "->"))
		}
	}
	return strings.Join(kept, "\n")
}

func appendClock(b []byte, seconds float64, point byte) []byte {
	ms := time.Duration(math.Round(seconds * 1000))
	two := func(v time.Duration) {
		b = append(b, byte('0'+v/10%10), byte('0'+v%10))
	}
	if hours := ms / 3_600_000; hours > 99 {
		b = strconv.AppendInt(b, int64(hours), 10)
	} else {
		two(hours)
	}
	b = append(b, ':')
	two(ms / 60_000 % 60)
	b = append(b, ':')
	two(ms / 1000 % 60)
	b = append(b, point, byte('0'+ms/100%10))
	two(ms % 100)
	return b
}
