package elevenlabs

import (
	"github.com/tidwall/gjson"

	"farebox/providers/audio"
	"farebox/providers/filebody"
	"farebox/proxy"
)

var pathListen = []byte("/speech-to-text")

// Listen makes the form of POST /speech-to-text: model_id, language_code,
// timestamps_granularity, temperature and the file.
func (Dialect) Listen(r *proxy.Request, h *audio.Hearing, t *audio.Target) {
	f := filebody.NewForm()
	f.Field("model_id", t.Model)
	f.FieldUnless("language_code", h.Language)
	f.FieldUnless("temperature", h.Temperature)
	times := "word" // the length is known by the end of the last one
	if h.Chars {
		times = "character"
	}
	f.Field("timestamps_granularity", times)
	f.Field("tag_audio_events", "false")
	f.Field("diarize", "false")
	f.File("file", h.Name, h.Type, nil, h.File)
	r.Path, r.Type, r.Source = pathListen, f.Type(), f.End()
}

// A segment of words ends at the end of a sentence, or with this many.
const segmentWords = 32

// Heard reads {language_code, text, words:[{text, start, end, type, characters}],
// audio_duration_secs}. Segments are made of its words.
func (Dialect) Heard(body []byte, h *audio.Hearing) *audio.Transcript {
	t := audio.ReadVerbose(body)
	if t == nil {
		return nil
	}
	o := gjson.ParseBytes(body)
	t.Measured = audio.Seconds(o.Get("audio_duration_secs"))
	t.Language = o.Get("language_code").String()
	t.Words = nil
	var segment audio.Heard
	count := 0
	flush := func() {
		if count > 0 {
			t.Segments = append(t.Segments, segment)
		}
		segment, count = audio.Heard{}, 0
	}
	o.Get("words").ForEach(func(_, w gjson.Result) bool {
		for _, c := range audio.ReadHeard(w.Get("characters"), "text", "start", "end") {
			if h.Chars {
				t.Chars = append(t.Chars, c)
			}
		}
		if kind := w.Get("type").Str; kind != "word" {
			if kind == "spacing" && count > 0 {
				segment.Text += w.Get("text").Str
			}
			return true
		}
		for _, word := range audio.ReadHeard(arrayOf(w), "text", "start", "end") {
			t.Words = append(t.Words, word)
			if count == 0 {
				segment.Start = word.Start
			}
			segment.Text += word.Text
			segment.End = max(segment.End, word.End)
			if count++; count >= segmentWords || endsSentence(word.Text) {
				flush()
			}
		}
		return true
	})
	flush()
	return t
}

// arrayOf is a value as the only one of an array.
func arrayOf(v gjson.Result) gjson.Result { return gjson.Parse("[" + v.Raw + "]") }

func endsSentence(word string) bool {
	if word == "" {
		return false
	}
	switch word[len(word)-1] {
	case '.', '!', '?':
		return true
	}
	return false
}

var (
	_ audio.Listener = Dialect{}
)
