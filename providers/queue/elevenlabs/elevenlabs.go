// Package elevenlabs has music made by ElevenLabs. The base URL is
// https://api.elevenlabs.io/v1, the key goes into a fixed header (xi-api-key), the
// target's model name is the model_id (music_v1, music_v2).
//
// A target's options: output_format, codec_rate_bitrate as its API names them,
// mp3_44100_128 when it is not set; lyrics: prompt, so that lyrics are written below the
// prompt, since the API has no field for them.
//
// The answer to the order is the track: there is nothing to ask afterwards, and an answer
// that breaks off cannot be had again.
package elevenlabs

import (
	"encoding/json"
	"errors"
	"strconv"

	"farebox/config/asyncjob"
	"farebox/providers/chat/dialect"
	"farebox/providers/queue"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Dialect implements queue.Dialect.
type Dialect struct{}

var _ queue.Dialect = Dialect{}

const (
	defaultFormat = "mp3_44100_128"
	// The lengths that can be ordered, in seconds.
	minSeconds, maxSeconds = 3, 600
	// maxSuggestion is the longest prompt that is suggested to a customer.
	maxSuggestion = 4 << 10
)

// Terms says that the track is the answer.
func (Dialect) Terms(*queue.Target) queue.Terms { return queue.Terms{Synchronous: true} }

// Reach knows a prompt, a length and whether there is to be a voice.
func (Dialect) Reach(o *queue.Order, t *queue.Target) *dialect.Unsupported {
	for _, f := range []struct {
		field string
		said  bool
	}{
		{"lyrics", o.Lyrics != "" && t.Options["lyrics"] != "prompt"}, {"lyrics_optimizer", o.LyricsOptimizer},
		{"loop", o.Loop}, {"voice", o.Voice != ""}, {"language", o.Language != ""}, {"speed", o.Speed != nil},
		{"format", o.Format != "" && o.Format != "mp3" && t.Options["output_format"] == ""},
	} {
		if f.said {
			return &dialect.Unsupported{Path: f.field, Text: "The model cannot be asked for " + f.field + "."}
		}
	}
	if o.Seconds != 0 && (o.Seconds < minSeconds || o.Seconds > maxSeconds) {
		return &dialect.Unsupported{Path: "seconds", Text: "The model makes tracks of " + strconv.Itoa(minSeconds) +
			" to " + strconv.Itoa(maxSeconds) + " seconds."}
	}
	return nil
}

// Submit posts to /music.
func (Dialect) Submit(s *queue.Step, o *queue.Order, t *queue.Target, _ queue.Ident) {
	in := map[string]any{"prompt": o.Prompt, "model_id": t.Model}
	if o.Lyrics != "" {
		in["prompt"] = o.Prompt + "\n\nLyrics:\n" + o.Lyrics
	}
	if o.Seconds > 0 {
		in["music_length_ms"] = o.Seconds * 1000
	}
	if o.Instrumental {
		in["force_instrumental"] = true
	}
	format := t.Options["output_format"]
	if format == "" {
		format = defaultFormat
	}
	body, _ := json.Marshal(in)
	s.Request = proxy.Request{Path: []byte("/music?output_format=" + format), Body: body}
	s.Media = true
}

// Submitted has the track on its way.
func (Dialect) Submitted(r *queue.Reply, _ *queue.Target) (*queue.Taken, bool) {
	if r.Media == nil {
		return nil, false
	}
	at := queue.Delivered(r)
	at.Result = nil
	return &queue.Taken{Done: at}, true
}

// Refused reads {detail:{status, message, data:{prompt_suggestion}}}.
func (Dialect) Refused(r *queue.Reply, _ *queue.Target) (*asyncjob.Refused, bool) {
	refusal, certain := queue.RefusedBy(r)
	detail := queue.Members(queue.Members(r.Body)["detail"])
	code := jsontext.Unquoted(detail["status"])
	if code == "" {
		code = jsontext.Unquoted(detail["code"])
	}
	switch code {
	case "bad_prompt", "bad_composition_plan":
		refusal = queue.Policy()
		data := queue.Members(detail["data"])
		if text := jsontext.Unquoted(data["prompt_suggestion"]); len(text) <= maxSuggestion {
			refusal.Suggestion = text
		}
	case "quota_exceeded", "invalid_api_key", "missing_permissions", "limited_access":
		// The operator's account is at fault, for any status.
		refusal = &asyncjob.Refused{Status: 503, Code: "MODEL_OFFLINE",
			Message: "The model is not available right now; please retry later."}
	}
	return refusal, certain
}

// Poll asks nothing: there is nothing to ask.
func (Dialect) Poll(s *queue.Step, _ *queue.Handle, _ *queue.Target) {
	s.Request = proxy.Request{Method: "GET", Path: []byte("/models")}
}

// Polled knows nothing of a job whose answer is gone.
func (Dialect) Polled(*queue.Step, *queue.Reply, *queue.Handle, *queue.Target) (*asyncjob.Status, error) {
	return nil, errors.New("the upstream keeps no jobs")
}

// Cancel is impossible but by closing the connection.
func (Dialect) Cancel(*queue.Step, *queue.Handle, *queue.Target) bool { return false }

// Cancelled is never asked.
func (Dialect) Cancelled(*queue.Step, *queue.Reply, *queue.Handle, *queue.Target) (queue.Stop, error) {
	return queue.Charged, nil
}
