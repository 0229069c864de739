package audio

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/audio"
	"farebox/proxy/scan"
	"farebox/routes"
)

// The members of a request for speech (addendum 9.1), by their place in speechShape:
// instructions, stream_format and a voice with an id are OpenAI's.
const (
	speechInput = iota
	speechModel
	speechVoice
	speechFormat
	speechSpeed
	speechStreaming
	speechLanguage
	speechPrompt
	speechTemperature
	speechTopP
	speechInstructions
	speechStreamFormat
)

var (
	voiceShape  = scan.NewShape(scan.Members(nil, "id")...)
	speechShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"voice": voiceShape}, "input", "model", "voice",
		"response_format", "speed", "streaming", "language", "prompt", "temperature", "top_p", "instructions",
		"stream_format")...)
)

const (
	maxInput  = 4096 // code points
	maxPrompt = 500
)

var speechBook = routes.NewRulebook(speechShape, map[string]*routes.Rule{
	"input":           {Kinds: routes.String, Required: true, NonEmpty: true, Characters: maxInput},
	"model":           {Kinds: routes.String, NonEmpty: true, Length: 512},
	"voice":           {Kinds: routes.String | routes.Object, NonEmpty: true, Length: 512},
	"voice.id":        {Kinds: routes.String, NonEmpty: true, Length: 512},
	"response_format": {Kinds: routes.String, Enum: config.SpeechFormats},
	"speed":           {Kinds: routes.Number, Min: 0.25, Max: 4, Default: 1},
	"streaming":       {Kinds: routes.Bool, Default: false},
	"language":        {Kinds: routes.String},
	"prompt":          {Kinds: routes.String, Characters: maxPrompt},
	"temperature":     {Kinds: routes.Number, Min: 0, Max: 2},
	"top_p":           {Kinds: routes.Number, Min: 0, Max: 1},
	"instructions":    {Kinds: routes.String, Characters: maxPrompt},
	"stream_format":   {Kinds: routes.String, Enum: []string{"audio", "sse"}, Default: "audio"},
})

// mostSpeech is room for a text of which every code point is written as two escapes.
func mostSpeech(*config.Config) int { return 128 << 10 }

// speechRows are the endpoints of speech and voices.
func speechRows(ca *Capability) []routes.Row {
	return []routes.Row{
		{
			Method: "POST", Path: "/audio/speech", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody, Limit: mostSpeech,
			Rate: routes.ByModel, Operation: "speech", Rules: routes.Always(speechBook), Offered: offersSpeech,
			Serve: ca.serveSpeech,
		},
		{
			Method: "POST", Path: "/audio/voices", Access: routes.Bearer, Wallet: true, Form: routes.FormBody, Limit: mostSample,
			Rate: routes.ByModel, Operation: "voice_cloning", Rules: routes.Always(voiceBook), Offered: offersVoices,
			Serve: ca.serveVoices,
		},
	}
}

func offersSpeech(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Models, func(m config.Model) bool { return m.Type == "tts" })
}

func offersVoices(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Models, func(m config.Model) bool {
		s, speaks := m.Spec.(*config.Speech)
		return speaks && s.VoiceCloning != nil
	})
}

// serveSpeech answers POST /audio/speech.
func (ca *Capability) serveSpeech(c *routes.Call) *routes.Error {
	if e := c.ReadJSON(speechShape); e != nil {
		return e
	}
	s := ca.speeches.Get().(*speech)
	s.call, s.view, c.Part = c, c.Own(ca).(*view), s
	s.v = routes.Validator{Body: c.Body, Doc: &c.Doc, Book: speechBook, Issues: s.v.Issues[:0]}
	s.v.CheckAll()
	s.readText()
	if e := s.choose(); e != nil {
		return e
	}
	if e := s.read(); e != nil {
		return e
	}
	return c.Sell(s, routes.Terms{Patience: speechPatience})
}

// readText counts the text and the prompt, which rules count in bytes.
func (s *speech) readText() {
	s.characters = s.count(speechInput)
	s.count(speechPrompt)
	s.count(speechInstructions)
	if s.v.Member(-1, speechPrompt) != nil && s.v.Member(-1, speechInstructions) != nil {
		s.v.Wrong("instructions", "is another name of prompt; give one of them.")
	}
	if n := len(s.v.Text(-1, speechLanguage)); s.v.Member(-1, speechLanguage) != nil && (n < 2 || n > 32) {
		s.v.Wrong("language", "must be 2 to 32 characters.")
	}
}

// count is the length of a member in code points: its rule bounds them, and they are charged.
func (s *speech) count(id int) int64 {
	text := s.v.Text(-1, id)
	n, ok := codePoints(text)
	name := speechShape.Name(id)
	if !ok {
		s.v.Wrong(name, "has half of a surrogate pair, which is not a character.")
	}
	if most := int64(speechBook.Rule(speechShape, id).Characters); n > most {
		s.tooLong(name, n, most, "")
	}
	return n
}

func (s *speech) tooLong(name string, n, most int64, of string) {
	limit := strconv.FormatInt(most, 10)
	s.v.Add(routes.Issue{Code: "too_big", Path: name, Maximum: limit, Message: name + ": must be at most " + limit +
		" characters" + of + ", has " + strconv.FormatInt(n, 10) + "."})
}

// codePoints counts the characters of a JSON string, which is valid and is between
// its quotes; not ok: an escape is half of a surrogate pair.
func codePoints(text []byte) (n int64, ok bool) {
	if bytes.IndexByte(text, '\\') < 0 {
		return int64(utf8.RuneCount(text)), true
	}
	ok = true
	for i := 0; i < len(text); n++ {
		if text[i] != '\\' {
			i++
			for i < len(text) && text[i]&0xc0 == 0x80 {
				i++
			}
			continue
		}
		if text[i+1] != 'u' {
			i += 2
			continue
		}
		unit, _ := strconv.ParseUint(routes.ViewString(text[i+2:i+6]), 16, 16)
		i += 6
		switch {
		case unit&0xfc00 == 0xdc00:
			ok = false
		case unit&0xfc00 == 0xd800:
			if len(text)-i < 6 || text[i] != '\\' || text[i+1] != 'u' {
				ok = false
				continue
			}
			low, _ := strconv.ParseUint(routes.ViewString(text[i+2:i+6]), 16, 16)
			if ok = ok && low&0xfc00 == 0xdc00; low&0xfc00 == 0xdc00 {
				i += 6
			}
		}
	}
	return n, ok
}

// choose finds the model. Without a name it is the default one.
func (s *speech) choose() *routes.Error {
	catalog, name := s.call.Catalog(), s.v.Text(-1, speechModel)
	var model *providers.Model
	var match providers.Match
	if name != nil {
		model, match = catalog.Resolve(name, "tts")
	} else {
		model, match, name = catalog.Default("tts"), providers.Trait, defaultName
	}
	if e := s.call.UseModel(name, "tts", model, match, s.v.Issues); e != nil {
		return e
	}
	s.spec = model.Config.Spec.(*config.Speech)
	return nil
}

var defaultName = []byte("default")

// read takes the features of the request that the model supports. Hints that it does not follow
// are ignored.
func (s *speech) read() *routes.Error {
	if most := s.spec.InputCharacters; s.characters > most {
		s.tooLong("input", s.characters, most, " with model "+s.call.Model.ID)
		return routes.Invalid(s.v.Issues...)
	}
	to, can := &s.speech, &s.spec.Capabilities
	to.Model = s.call.Model.ID
	to.Quoted = s.raw(speechInput)
	to.Input = s.decoded(s.v.Text(-1, speechInput))
	if to.Format = s.spec.DefaultFormat; s.v.Member(-1, speechFormat) != nil {
		i := slices.Index(config.SpeechFormats, string(s.v.Text(-1, speechFormat)))
		to.Format = config.SpeechFormats[i]
	}
	if !slices.Contains(s.spec.Formats, to.Format) {
		return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "response_format", Received: to.Format,
			Options: s.spec.Formats, Message: "response_format: model " + s.call.Model.ID + " makes " +
				strings.Join(s.spec.Formats, ", ") + ", not " + to.Format + "."})
	}
	to.Speed = s.raw(speechSpeed)
	if can.Temperature {
		to.Temperature = s.raw(speechTemperature)
	}
	if can.TopP {
		to.TopP = s.raw(speechTopP)
	}
	if can.Prompt {
		if to.Prompt = s.raw(speechPrompt); to.Prompt == nil {
			to.Prompt = s.raw(speechInstructions)
		}
	}
	if language := s.v.Text(-1, speechLanguage); follows(can.Languages, language) {
		to.Language = routes.ViewString(language)
	}
	to.Events = string(s.v.Text(-1, speechStreamFormat)) == "sse"
	to.Stream = to.Events || s.v.IsTrue(speechStreaming)
	s.call.Streams = to.Stream
	return s.readVoice()
}

// follows says that a language may be asked for.
func follows(list []string, language []byte) bool {
	if len(language) == 0 || bytes.IndexByte(language, '\\') >= 0 {
		return false
	}
	for _, known := range list {
		if known == config.AnyLanguage || strings.EqualFold(known, routes.ViewString(language)) {
			return true
		}
	}
	return false
}

// raw is a member as the client wrote it; nil when it is absent.
func (s *speech) raw(id int) []byte {
	f := s.v.Member(-1, id)
	if f == nil {
		return nil
	}
	return f.Raw(s.v.Body)
}

// decoded is a text without its escapes.
func (s *speech) decoded(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	s.text = audio.AppendText(s.text[:0], text)
	return s.text
}

// readVoice takes the voice: one of the model, one of the account's own, or, where the
// operator lets them pass, any of the upstream.
func (s *speech) readVoice() *routes.Error {
	f := s.v.Member(-1, speechVoice)
	if f == nil {
		s.speech.Voice = s.spec.DefaultVoice
		return nil
	}
	text := s.v.Text(-1, speechVoice)
	if f.Kind == scan.Object {
		if text = s.v.Text(s.v.Doc.TopIndex(speechVoice), voiceShape.ID("id")); text == nil {
			return routes.Invalid(routes.Issue{Code: "invalid_type", Path: "voice.id", Expected: "string",
				Received: "undefined", Message: "voice.id: is required."})
		}
	}
	name := routes.ViewString(text)
	if bytes.IndexByte(text, '\\') >= 0 {
		name = string(audio.AppendText(nil, text))
	}
	switch {
	case strings.HasPrefix(name, config.VoiceHandle):
		return s.useClone(name)
	case len(s.spec.Voices) > 0 && !s.spec.CustomVoiceIDs && !slices.Contains(s.spec.Voices, name):
		return s.unknownVoice(name)
	}
	s.speech.Voice = name
	return nil
}

// maxListed bounds the names in an answer.
const maxListed = 50

func (s *speech) unknownVoice(name string) *routes.Error {
	received := routes.Excerpt([]byte(name))
	return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "voice", Received: received,
		Options: s.spec.Voices[:min(len(s.spec.Voices), maxListed)],
		Message: "voice: model " + s.call.Model.ID + " has no voice " + received + "; GET " + routes.Prefix +
			"/models?type=tts lists its voices."})
}

// Admit holds the cost of the text, to the last character.
func (s *speech) Admit(again bool) *routes.Error {
	sold := s.lines()
	return s.call.AdmitCost(again, sold.Cost(), 1)
}
