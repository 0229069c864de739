package upstream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// earOf finds whose form of transcriptions a path has.
func earOf(path string) (ear string, ok bool) {
	switch {
	case strings.HasSuffix(path, "/speech-to-text"):
		return "elevenlabs", true
	case strings.HasSuffix(path, "/inference"):
		return "whisper", true
	case strings.HasSuffix(path, "/api/v1/audio/transcriptions"):
		return "native", true
	case strings.HasSuffix(path, "/audio/transcriptions"):
		return "openai", true
	}
	return "", false
}

// transcriptionForm is a request for a transcription.
type transcriptionForm struct {
	parts   []Field // in the order of the request
	fields  map[string][]string
	file    []byte
	seconds float64 // as a reader of headers measures it
}

func (t *transcriptionForm) field(name string) string {
	if v := t.fields[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// transcribe answers a request for a transcription: a word for each half a second.
func (c *conn) transcribe(x *exchange, ear string) (int, bool, error) {
	x.endpoint = "transcription"
	h, reason := c.heard()
	if reason == "" {
		reason = c.check(Call{API: "transcription", Vendor: ear, Fields: h.parts}).Text
	}
	if reason == "" && h.seconds <= 0 {
		reason = "Invalid file format. Supported formats: flac, m4a, mp3, mp4, mpeg, mpga, oga, ogg, wav, webm"
	}
	switch {
	case x.sc.Status >= 400:
		return c.refuse(x, false, x.sc.Status, failureFor(x.sc, h.field("model")))
	case reason != "":
		return c.refuse(x, false, 400, failure{kind: "invalid_request_error", text: reason})
	}
	x.units = int64(h.seconds + 0.999)
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	return c.sendJSON(x, h.answer(ear, x.sc.Heard))
}

// heard reads the form; no says that it cannot be read.
func (c *conn) heard() (h *transcriptionForm, reason string) {
	h = &transcriptionForm{fields: map[string][]string{}}
	var ok bool
	if h.parts, ok = c.form(); !ok {
		reason = "the form cannot be read: expected multipart/form-data"
	}
	for _, f := range h.parts {
		if f.File != "" {
			h.file = []byte(f.Value)
		} else {
			h.fields[f.Name] = append(h.fields[f.Name], f.Value)
		}
	}
	h.seconds = secondsOf(h.file)
	return h, reason
}

// part is a word, segment, character or token of a transcript.
type part struct {
	Word  string  `json:"word,omitempty"`
	Text  string  `json:"text,omitempty"`
	Char  string  `json:"char,omitempty"`
	Type  string  `json:"type,omitempty"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// answer is a transcript in a form. lie is its stated length instead of the true one: a
// number, or "none".
func (t *transcriptionForm) answer(ear, lie string) []byte {
	var words, segments, chars, labs []part
	text := ""
	for n := 0; n < 400 && (float64(n)/2 < t.seconds || n == 0); n++ {
		word := fmt.Sprintf("word%d", n)
		if n%8 == 7 {
			word += "."
		}
		at := float64(n) / 2
		end := min(at+0.4, t.seconds)
		if n%8 == 0 {
			segments = append(segments, part{Start: at})
		}
		s := &segments[len(segments)-1]
		s.Text, s.End = s.Text+" "+word, end
		if text != "" {
			labs = append(labs, part{Text: " ", Type: "spacing", Start: at, End: at})
			text += " "
		}
		text += word
		words = append(words, part{Word: word, Start: at, End: end})
		labs = append(labs, part{Text: word, Type: "word", Start: at, End: end})
		for _, c := range word {
			chars = append(chars, part{Char: string(c), Start: at, End: end})
		}
	}
	o := map[string]any{"text": text}
	length := any(t.seconds)
	if lie != "" {
		length = json.RawMessage(lie)
	}
	if n, err := strconv.ParseFloat(lie, 64); lie != "none" && (lie == "" || err == nil) {
		whole := int64(min(max(n, 0), 1e15))
		if lie == "" {
			whole = int64(t.seconds + 0.999)
		}
		o["duration"] = length
		if ear == "openai" {
			o["usage"] = map[string]any{"type": "duration", "seconds": whole}
		}
	}
	switch verbose := t.field("response_format") == "verbose_json"; {
	case ear == "native":
		if t.field("timestamps") == "true" {
			o["timestamps"] = map[string]any{"word": words, "segment": segments, "char": chars}
		}
	case ear == "elevenlabs":
		delete(o, "duration")
		if lie != "none" {
			o["audio_duration_secs"] = length
		}
		o["language_code"], o["language_probability"], o["words"] = "eng", 0.98, labs
	case verbose:
		list := []any{}
		for i, s := range segments {
			of := map[string]any{"id": i, "seek": i * 400, "start": s.Start, "end": s.End, "text": s.Text,
				"tokens": []int{50364, 50564}, "temperature": 0, "avg_logprob": -0.25, "compression_ratio": 1.2,
				"no_speech_prob": 0.01}
			if ear == "whisper" { // the parts of words
				of["words"] = tokensOf(words[i*8 : min(len(words), i*8+8)])
			}
			list = append(list, of)
		}
		o["task"], o["language"], o["segments"] = "transcribe", "english", list
		if ear != "whisper" && slices.Contains(t.fields["timestamp_granularities[]"], "word") {
			o["words"] = words
		}
	default:
		delete(o, "duration")
	}
	b, _ := json.Marshal(o)
	return b
}

// tokensOf are words as Whisper's model says them: in parts, of which the first begins with
// a space.
func tokensOf(words []part) (tokens []part) {
	for _, w := range words {
		middle := (w.Start + w.End) / 2
		tokens = append(tokens, part{Word: " " + w.Word[:4], Start: w.Start, End: middle},
			part{Word: w.Word[4:], Start: middle, End: w.End})
	}
	return tokens
}

// secondsOf measures a file as many servers do: it trusts the headers alone.
func secondsOf(b []byte) float64 {
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case len(b) > 44 && string(b[:4]) == "RIFF":
		rate, data := le.Uint32(b[28:]), bytes.Index(b, []byte("data"))
		if rate == 0 || data < 0 || data+8 > len(b) {
			return 0
		}
		size, rest := int64(le.Uint32(b[data+4:])), int64(len(b)-data-8)
		if size == 0 { // its maker did not know
			size = rest
		}
		return float64(min(size, rest)) / float64(rate)
	case len(b) > 26 && string(b[:4]) == "fLaC":
		packed := be.Uint64(b[18:])
		return float64(packed&(1<<36-1)) / float64(max(packed>>44, 1))
	case len(b) > 4 && string(b[:4]) == "OggS":
		last, rate := bytes.LastIndex(b, []byte("OggS")), 48000.0
		if at := bytes.Index(b[:min(len(b), 200)], []byte("\x01vorbis")); at >= 0 {
			rate = float64(le.Uint32(b[at+12:]))
		}
		if last+14 > len(b) {
			return 0
		}
		return float64(le.Uint64(b[last+6:])) / rate
	case bytes.Contains(b[:min(len(b), 64)], []byte("ftyp")):
		at := bytes.Index(b, []byte("mvhd"))
		if at < 0 || at+24 > len(b) {
			return 0
		}
		return float64(be.Uint32(b[at+20:])) / float64(max(be.Uint32(b[at+16:]), 1))
	case len(b) > 4 && string(b[:4]) == "\x1A\x45\xDF\xA3":
		at := bytes.Index(b, []byte{0x44, 0x89, 0x88}) // milliseconds, as all write them
		if at < 0 || at+11 > len(b) {
			return 0
		}
		return math.Float64frombits(be.Uint64(b[at+3:])) / 1000
	case len(b) > 7 && b[0] == 0xFF && b[1]&0xF6 == 0xF0:
		rates := [16]float64{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000}
		frames, rate := 0.0, max(rates[b[2]>>2&15], 8000)
		for len(b) > 7 && b[0] == 0xFF {
			size := int(b[3]&3)<<11 | int(b[4])<<3 | int(b[5])>>5
			b = b[min(max(size, 7), len(b)):]
			frames++
		}
		return frames * 1024 / rate
	case len(b) > 2 && (b[0] == 0xFF || string(b[:3]) == "ID3"):
		if at := max(bytes.Index(b, []byte("Info")), bytes.Index(b, []byte("Xing"))); at > 0 && at+12 <= len(b) {
			return float64(be.Uint32(b[at+8:])) * 1152 / 48000
		}
		return float64(len(b)) / 8000 // 64,000 bits a second, as the tests have it
	}
	return 0
}
