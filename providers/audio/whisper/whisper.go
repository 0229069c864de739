// Package whisper speaks to the server of whisper.cpp: POST /inference with a form, and
// the model is the one that the server was started with.
//
// Code that other dialects could use belongs to package audio.
package whisper

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/providers/audio"
	"farebox/providers/chat/dialect"
	"farebox/providers/filebody"
	"farebox/proxy"
)

// Dialect implements audio.Listener.
type Dialect struct{}

var path = []byte("/inference")

// Listen makes the form: file, response_format, temperature, language, prompt. Without a
// language the server takes the one that it was started with, which is English by default.
// The likelihood of each language would need a second pass.
func (Dialect) Listen(r *proxy.Request, h *audio.Hearing, _ *audio.Target) {
	f := filebody.NewForm()
	f.Field("response_format", "verbose_json")
	language := h.Language
	if language == "" {
		language = "auto"
	}
	f.Field("language", language)
	f.Field("no_language_probabilities", "true")
	f.FieldUnless("prompt", h.Prompt)
	f.FieldUnless("temperature", h.Temperature)
	f.File("file", h.Name, h.Type, nil, h.File)
	r.Path, r.Type, r.Source = path, f.Type(), f.End()
}

// Heard reads verbose_json. The words of its segments are the tokens of the model, parts of
// words and separators; a word begins with a space.
func (Dialect) Heard(body []byte, _ *audio.Hearing) *audio.Transcript {
	t := audio.ReadVerbose(body)
	if t == nil {
		return nil
	}
	t.Words = t.Words[:0]
	gjson.GetBytes(body, "segments").ForEach(func(_, segment gjson.Result) bool {
		first := len(t.Words)
		for _, token := range audio.ReadHeard(segment.Get("words"), "word", "start", "end") {
			if len(t.Words) > first && continues(token.Text) {
				last := &t.Words[len(t.Words)-1]
				last.Text, last.End = last.Text+token.Text, max(last.End, token.End)
				continue
			}
			if token.Text = strings.TrimSpace(token.Text); token.Text != "" {
				t.Words = append(t.Words, token)
			}
		}
		return true
	})
	return t
}

// continues says that a token belongs to the word before it: not after a space, nor in
// scripts without spaces.
func continues(token string) bool {
	c, _ := utf8.DecodeRuneInString(token)
	return !unicode.IsSpace(c) && !unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Error reads {"error": "…"}.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return dialect.FailureOf(status, retryAfter, body)
}

var _ audio.Listener = Dialect{}
