package audio

import (
	"strings"
	"time"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Speech is a text to speak, as routes has checked it. Options that the model does not
// follow are unset.
type Speech struct {
	Model string // its id here
	// Input is the text, and Quoted the same as a JSON string.
	Input, Quoted []byte
	Voice         string // as the client names it; cloned voices as their upstream does
	Cloned        bool   // the voice is one of the account's own
	Format        string // one of config.SpeechFormats
	Speed         []byte // a number as the client wrote it; nil: 1
	Language      string
	Prompt        []byte // a JSON string; nil: absent
	Temperature   []byte // as Speed
	TopP          []byte
	Stream        bool // the client wants to hear its beginning before its end is made
	Events        bool // …as server-sent events
}

// Speaker puts speech to one kind of upstream. Implementations hold no state.
type Speaker interface {
	// Speak makes the request of s for t. Its body is appended to scratch, which is the
	// caller's. An error says why t cannot speak it: the next target is asked.
	Speak(r *proxy.Request, scratch []byte, s *Speech, t *Target) ([]byte, *dialect.Unsupported)
	// Error reads an answer that is a refusal.
	Error(status int, retryAfter time.Duration, body []byte) dialect.Failure
}

// Target is one upstream that serves a model of sound. Immutable.
type Target struct {
	Upstream string // the operator's label, for logs and metrics only
	Router   string // the name that clients see
	Model    string // the model's name there
	Speaker  Speaker
	Listener Listener
	Cloner   Cloner // nil: it takes no samples
	Proxy    *proxy.Endpoint
	Total    time.Duration     // of all attempts together; 0: no limit
	Options  map[string]string // as the operator wrote them, checked
	// Breaker is its health; Weight and Priority say when it is asked.
	Breaker          *health.Breaker
	Weight, Priority int
}

// makes says that the operator has not said that the target does not make a format.
func (t *Target) makes(format string) bool {
	list := t.Options["formats"]
	for name := range strings.SplitSeq(list, ",") {
		if list == "" || name == format {
			return true
		}
	}
	return false
}

// Voice is the upstream's name of the voice of s.
func (t *Target) Voice(s *Speech) string {
	if !s.Cloned {
		for name, id := range t.Options {
			if voice, ok := strings.CutPrefix(name, "voice."); ok && voice == s.Voice {
				return id
			}
		}
	}
	return s.Voice
}

// PathSafe says that a voice can be in a path as it is.
func PathSafe(voice string) bool {
	return voice != "" && !strings.ContainsFunc(voice, func(c rune) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// Picker chooses the targets of one request: those of the lowest priority number come
// first.
type Picker = attempt.ByPriority[*Target]

// Turn is attempt.Ranked.
func (t *Target) Turn() (*health.Breaker, int, int) { return t.Breaker, t.Weight, t.Priority }

// AppendText appends a JSON string, which is between its quotes, without its escapes.
func AppendText(dst, quoted []byte) []byte { return jsontext.AppendUnescaped(dst, quoted) }
