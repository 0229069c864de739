package upstream

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/sound"
)

// CharacterTime is how long a character sounds at speed 1, so that a test sees from the
// length of an answer how much text was spoken.
const CharacterTime = 50 * time.Millisecond

// speaking is one request for speech, in any form.
type speaking struct {
	text   string
	format string
	speed  float64
	stream bool // the server sends audio as it is made
	events bool
	labs   bool // ElevenLabs is asked
}

// speakerOf says that a path is one of speech or voices, and whose.
func speakerOf(path string) (speaks, labs bool) {
	labs = strings.Contains(path, "/text-to-speech/") || strings.HasSuffix(path, "/voices/add") ||
		strings.Contains(path, "/v1/voices/")
	return labs || strings.HasSuffix(path, "/audio/speech") || strings.HasSuffix(path, "/audio/voices"), labs
}

// speechAsked is a request for speech with its directive in the usual member.
func speechAsked(asked gjson.Result) gjson.Result {
	text := asked.Get("text")
	if !text.Exists() {
		return asked
	}
	return gjson.Parse(`{"input":` + text.Raw + `,` + strings.TrimLeft(asked.Raw, " \t\r\n")[1:])
}

// speak answers requests for speech and voices.
func (c *conn) speak(x *exchange, path, query string, labs bool) (int, bool, error) {
	switch {
	case strings.HasSuffix(path, "/voices/add"), strings.HasSuffix(path, "/audio/voices"):
		return c.addVoice(x, labs)
	case labs && !strings.Contains(path, "/text-to-speech/"):
		return c.dropVoice(x, path)
	}
	x.endpoint = "speech"
	var s *speaking
	var fault string
	if labs {
		s, fault = c.labsSpeech(path, query)
	} else {
		s, fault = c.openaiSpeech()
	}
	switch {
	case x.sc.Status >= 400:
		return c.refuseSpeech(x, labs, x.sc.Status, failureFor(x.sc, "").text)
	case fault != "":
		status := 400
		if labs {
			status = 422
		}
		return c.refuseSpeech(x, labs, status, fault)
	}
	characters := int64(utf8.RuneCountInString(s.text))
	x.units, x.tally.Characters = characters, characters
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	if s.events {
		return c.sendSpeechEvents(x, s)
	}
	return c.sendSpeech(x, s)
}

// length is how long the text sounds.
func (s *speaking) length() time.Duration {
	return time.Duration(float64(utf8.RuneCountInString(s.text)) * float64(CharacterTime) / s.speed)
}

// openaiSpeech reads a request in OpenAI's form.
func (c *conn) openaiSpeech() (*speaking, string) {
	asked := gjson.ParseBytes(c.req.body)
	s := &speaking{text: asked.Get("input").Str, format: cmp.Or(asked.Get("response_format").Str, "mp3"), speed: 1,
		stream: true, events: asked.Get("stream_format").Str == "sse"}
	if v := asked.Get("speed").Float(); v > 0 {
		s.speed = v
	}
	return s, cmp.Or(c.check(Call{API: "speech", Asked: asked}).Text, knownFormat(s.format))
}

func knownFormat(format string) string {
	for _, known := range sound.Formats {
		if known == format {
			return ""
		}
	}
	return "response_format: " + format + " is not known"
}

// labsOutputs are the formats of ElevenLabs that are made here.
var labsOutputs = map[string]string{"mp3_44100_128": "mp3", "pcm_24000": "pcm", "opus_48000_128": "opus", "wav_24000": "wav"}

// labsSpeech reads a request as ElevenLabs' packages send it.
func (c *conn) labsSpeech(path, query string) (*speaking, string) {
	asked := gjson.ParseBytes(c.req.body)
	fault := c.check(Call{API: "labs_speech", Asked: asked}).Text
	s := &speaking{text: asked.Get("text").Str, speed: 1, labs: true, format: "mp3"}
	if v := asked.Get("voice_settings.speed").Float(); v > 0 {
		s.speed = v
	}
	_, voice, _ := strings.Cut(path, "/text-to-speech/")
	voice, s.stream = strings.CutSuffix(voice, "/stream")
	if strings.HasPrefix(voice, "clone") && !c.srv.hasVoice(voice) {
		return s, "A voice with the voice_id '" + voice + "' was not found."
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, ok := strings.CutPrefix(pair, "output_format="); ok {
			if s.format = labsOutputs[name]; s.format == "" {
				return s, "output_format: " + name + " is not available"
			}
		}
	}
	return s, fault
}

func (c *conn) refuseSpeech(x *exchange, labs bool, status int, text string) (int, bool, error) {
	if !labs {
		return c.refuse(x, false, status, failure{kind: "invalid_request_error", text: text})
	}
	x.outcome, x.tally = Refused, Tally{}
	body := appendString([]byte(`{"detail":{"status":"invalid","message":`), text)
	return c.reply(x.sc.refusal(), status, contentJSON, append(body, "}}"...))
}

// sendSpeech sends the sound, spoiled as the scenario says.
func (c *conn) sendSpeech(x *exchange, s *speaking) (int, bool, error) {
	clip := sound.New(s.format, s.length(), sound.Options{Unmeasured: s.stream && s.format == "wav"})
	content, length := sound.Type(s.format), int(clip.Size())
	switch {
	case x.sc.Empty:
		x.outcome = Broken
		c.wire.begin(x.sc, 200, content, 0)
		keep, err := c.wire.body(nil)
		return 200, keep, err
	case x.sc.HTML:
		return c.sendPage(x)
	case x.sc.ErrorEvent:
		x.outcome = Broken
		c.wire.begin(x.sc, 200, content, -1)
		keep, err := c.wire.body([]byte(`{"error":{"message":"voice-2.internal.simulated ran out of memory","type":"server_error"}}`))
		return 200, keep, err
	case x.sc.Endless:
		return c.sendEndless(x, content, sound.Bytes(s.format, time.Second))
	case x.sc.Wrong != "":
		return c.sendBody(x, []byte(strings.Repeat("this is not a sound. ", 40)))
	case x.sc.Cut != "" || x.sc.Truncate:
		x.outcome = Broken
	}
	if x.sc.Chunk > 0 || s.stream && x.sc.Gap > 0 {
		length = -1
	}
	c.wire.begin(x.sc, 200, content, length)
	left := x.sc.CutAfter.Or(int(clip.Size()) / 2)
	piece := make([]byte, 16<<10)
	for {
		n, err := clip.Read(piece)
		if x.outcome == Broken {
			if n = min(n, left); n == 0 {
				return 200, false, c.wire.flush()
			}
			left -= n
		}
		if n > 0 {
			if err := c.wire.event(piece[:n], 0); err != nil {
				return 200, false, err
			}
		}
		if err == io.EOF {
			break
		}
	}
	keep, err := c.wire.end()
	return 200, keep, err
}

// sendSpeechEvents sends the sound as OpenAI's events.
func (c *conn) sendSpeechEvents(x *exchange, s *speaking) (int, bool, error) {
	if x.sc.Cut != "" || x.sc.Truncate || x.sc.ErrorEvent {
		x.outcome = Broken
	}
	c.wire.begin(x.sc, 200, contentStream, -1)
	clip := sound.New(s.format, s.length(), sound.Options{})
	piece := make([]byte, 3<<10)
	for i := 0; ; i++ {
		n, _ := io.ReadFull(clip, piece)
		if x.sc.ErrorEvent && i == x.sc.ErrorAfter.Or(0) {
			err := c.wire.event([]byte(`data: {"error":{"message":"gpu-2.internal.simulated failed","type":"server_error"}}`+"\n\n"), 0)
			if err != nil {
				return 200, false, err
			}
			keep, err := c.wire.end()
			return 200, keep, err
		}
		if n == 0 {
			break
		}
		event := []byte(`data: {"type":"speech.audio.delta","audio":"` + base64.StdEncoding.EncodeToString(piece[:n]) + "\"}\n\n")
		if err := c.wire.event(event, 0); err != nil {
			return 200, false, err
		}
		if x.sc.Cut != "" && i == x.sc.CutAfter.Or(1) {
			return 200, false, c.wire.flush()
		}
	}
	if !x.sc.NoDone {
		n := strconv.FormatInt(x.units, 10)
		err := c.wire.event([]byte(`data: {"type":"speech.audio.done","usage":{"input_tokens":`+n+
			`,"output_tokens":`+n+`,"total_tokens":`+n+"}}\n\n"), 0)
		if err != nil {
			return 200, false, err
		}
	}
	keep, err := c.wire.end()
	return 200, keep, err
}

// addVoice answers POST /v1/voices/add of ElevenLabs and the service's own POST
// /audio/voices.
func (c *conn) addVoice(x *exchange, labs bool) (int, bool, error) {
	x.endpoint = "voices"
	if x.sc.Status >= 400 {
		return c.refuseSpeech(x, labs, x.sc.Status, "cannot clone on worker-3.internal.simulated")
	}
	parts, ok := c.form()
	field, sample, fields := "file", "", map[string]string{}
	if labs {
		field = "files"
	}
	for _, f := range parts {
		if f.File == "" {
			fields[f.Name] = f.Value
		} else if f.Name == field {
			sample = f.Value
		}
	}
	switch {
	case !ok || sample == "":
		return c.refuseSpeech(x, labs, 422, field+": field required")
	case labs && fields["name"] == "", !labs && fields["model"] == "":
		return c.refuseSpeech(x, labs, 422, "a field is required")
	}
	x.units = 1
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	id := fmt.Sprintf("clone%06x", c.srv.ids.Add(1))
	if !labs {
		id = "vv_" + id
	}
	c.srv.mu.Lock()
	if c.srv.voices == nil {
		c.srv.voices = map[string]int{}
	}
	c.srv.voices[id] = len(sample)
	c.srv.mu.Unlock()
	if labs {
		return c.sendJSON(x, []byte(`{"voice_id":"`+id+`","requires_verification":false}`))
	}
	return c.sendJSON(x, append(appendString([]byte(`{"id":"`+id+`","model":`), fields["model"]), '}'))
}

// dropVoice answers DELETE /v1/voices/{id}.
func (c *conn) dropVoice(x *exchange, path string) (int, bool, error) {
	x.endpoint = "voices"
	id := path[strings.LastIndexByte(path, '/')+1:]
	if x.sc.Status >= 400 || string(c.req.method) != "DELETE" {
		return c.refuseSpeech(x, true, cmp.Or(x.sc.Status, 405), "no")
	}
	c.srv.mu.Lock()
	_, known := c.srv.voices[id]
	delete(c.srv.voices, id)
	c.srv.mu.Unlock()
	if !known {
		return c.refuseSpeech(x, true, 404, "A voice with the voice_id '"+id+"' was not found.")
	}
	return c.sendJSON(x, []byte(`{"status":"ok"}`))
}

func (s *Server) hasVoice(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.voices[id]
	return ok
}

// Voices are the ids of the cloned voices that were not deleted.
func (s *Server) Voices() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.voices {
		ids = append(ids, id)
	}
	return ids
}
