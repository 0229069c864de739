package audio

import (
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"farebox/config"
	"farebox/providers/audio"
	"farebox/proxy/scan"
	"farebox/routes"
)

// transcriptionForm is a client's form (addendum 9.3, and the members that OpenAI's packages send
// beside that).
type transcriptionForm struct {
	v           routes.Validator
	file        []byte
	model       string
	format      string
	language    string
	prompt      string
	temperature string
	times       bool     // timestamps
	kinds       []string // of them; none: all that the model gives
	stream      bool
}

// transcriptFormats are the forms of answers.
var transcriptFormats = []string{"json", "text", "srt", "vtt", "verbose_json"}

const maxHint = 4096 // characters of a prompt

var languageCode = regexp.MustCompile(`^[a-z]{2}$`)

// transcriptionBook lists the members of a form, for descriptions of it.
var transcriptionBook = routes.NewRulebook(
	scan.NewShape(scan.Member{Name: "file"}, scan.Member{Name: "model"}, scan.Member{Name: "response_format"},
		scan.Member{Name: "timestamps"}, scan.Member{Name: "language"}, scan.Member{Name: "prompt"},
		scan.Member{Name: "temperature"}, scan.Member{Name: "timestamp_granularities[]"}, scan.Member{Name: "stream"},
		scan.Member{Name: "chunking_strategy"}),
	map[string]*routes.Rule{
		"file":                      {Kinds: routes.String, Required: true, NonEmpty: true, Format: "binary"},
		"model":                     {Kinds: routes.String},
		"response_format":           {Kinds: routes.String, Enum: transcriptFormats, Default: "json"},
		"timestamps":                {Kinds: routes.Bool, Default: false},
		"language":                  {Kinds: routes.String, Format: "ISO 639-1"},
		"prompt":                    {Kinds: routes.String, Characters: maxHint},
		"temperature":               {Kinds: routes.Number, Min: 0, Max: 1},
		"timestamp_granularities[]": {Kinds: routes.String, Enum: []string{"segment", "word"}},
		"stream":                    {Kinds: routes.Bool, Default: false},
		"chunking_strategy":         {Kinds: routes.String, Enum: []string{"auto"}},
	})

// readForm reads the form. Faults of its fields are reported with the model.
func (f *transcriptionForm) readForm(c *routes.Call) *routes.Error {
	parts, e := c.ReadForm()
	if e != nil {
		return e
	}
	f.format = transcriptFormats[0]
	seen := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		if many := p.Name == "timestamp_granularities[]" || p.Name == "timestamp_granularities"; seen[p.Name] && !many {
			f.v.Add(routes.Issue{Code: "custom", Path: p.Name, Message: p.Name + ": is given more than once."})
			continue
		}
		seen[p.Name] = true
		if p.IsFile != (p.Name == "file") {
			f.wrongKind(p)
			continue
		}
		f.take(p)
	}
	switch {
	case !seen["file"]:
		f.v.Add(routes.Issue{Code: "invalid_type", Path: "file", Expected: "file", Received: "undefined",
			Message: "file: is required."})
	case len(f.file) > maxSound:
		return &routes.Error{Status: 413, Code: "PAYLOAD_TOO_LARGE", Uncounted: true,
			Message: "The file is too large; at most " + config.Size(maxSound).String() + " are taken."}
	case len(f.file) == 0 && len(f.v.Issues) == 0:
		f.v.Add(routes.Issue{Code: "too_small", Path: "file", Minimum: "1", Message: "file: is empty."})
	}
	return nil
}

func (f *transcriptionForm) wrongKind(p *routes.FormPart) {
	if p.Name == "file" {
		f.v.Add(routes.Issue{Code: "invalid_type", Path: "file", Expected: "file", Received: "string",
			Message: "file: expected a file with a filename, received a field."})
		return
	}
	f.v.Add(routes.Issue{Code: "invalid_type", Path: p.Name, Expected: "string", Received: "file",
		Message: p.Name + ": expected a field, received a file."})
}

// take takes one part.
func (f *transcriptionForm) take(p *routes.FormPart) {
	text := string(p.Content[:min(len(p.Content), 16<<10)])
	if p.Name != "file" && !utf8.ValidString(text) {
		f.v.Wrong(p.Name, "is not text in UTF-8.")
		return
	}
	switch p.Name {
	case "file":
		f.file = p.Content
	case "model":
		f.model = text
	case "response_format":
		if f.format = text; text == "diarized_json" {
			f.v.Wrong(p.Name, "diarized_json is not served: speakers are not told apart.")
		} else {
			f.oneOf(p, text, transcriptFormats)
		}
	case "timestamps":
		f.times = f.flag(p, text)
	case "language":
		if f.language = text; text != "" && !languageCode.MatchString(text) {
			f.v.Add(routes.Issue{Code: "invalid_string", Path: p.Name, Received: routes.Excerpt(p.Content),
				Message: "language: expected two letters of ISO 639-1, such as en, received " + routes.Quoted(text) + "."})
		}
	case "prompt":
		if f.prompt = text; utf8.RuneCountInString(text) > maxHint || len(p.Content) > len(text) {
			f.v.Add(routes.Issue{Code: "too_big", Path: p.Name, Maximum: strconv.Itoa(maxHint),
				Message: "prompt: expected at most " + strconv.Itoa(maxHint) + " characters."})
		}
	case "temperature":
		if x, err := strconv.ParseFloat(text, 64); err != nil || !(x >= 0 && x <= 1) || len(text) > 32 {
			f.v.Add(routes.Issue{Code: "invalid_type", Path: p.Name, Expected: "number", Received: routes.Excerpt(p.Content),
				Message: "temperature: expected a number from 0 to 1, received " + routes.Quoted(text) + "."})
		} else if x > 0 {
			f.temperature = strconv.FormatFloat(x, 'f', -1, 64)
		}
	case "timestamp_granularities[]", "timestamp_granularities":
		if f.oneOf(p, text, []string{"segment", "word"}); !slices.Contains(f.kinds, text) {
			f.kinds = append(f.kinds, text)
		}
	case "stream":
		f.stream = f.flag(p, text)
	case "chunking_strategy":
		// The model decides by itself how it divides long sound.
		f.oneOf(p, text, []string{"auto"})
	default:
		f.v.Unrecognized("", p.Name)
	}
}

func (f *transcriptionForm) oneOf(p *routes.FormPart, text string, options []string) {
	if slices.Contains(options, text) {
		return
	}
	list := ""
	for i, o := range options {
		if i > 0 {
			list += ", "
		}
		list += o
	}
	f.v.Add(routes.Issue{Code: "invalid_enum_value", Path: p.Name, Received: routes.Excerpt(p.Content), Options: options,
		Message: p.Name + ": expected one of " + list + ", received " + routes.Quoted(text) + "."})
}

func (f *transcriptionForm) flag(p *routes.FormPart, text string) bool {
	switch text {
	case "true", "True", "1":
		return true
	case "false", "False", "0", "":
		return false
	}
	f.v.Add(routes.Issue{Code: "invalid_type", Path: p.Name, Expected: "boolean", Received: routes.Excerpt(p.Content),
		Message: p.Name + ": expected true or false, received " + routes.Quoted(text) + "."})
	return false
}

// gate checks the form against the model's features, and fills in h.
func (f *transcriptionForm) gate(h *audio.Hearing, model string, can *config.TranscriptionCapabilities) *routes.Error {
	refuse := func(path, what string) *routes.Error {
		return routes.Unsupported(path, "Model "+model+" does not support "+what+".")
	}
	timed := f.format == "srt" || f.format == "vtt" || f.format == "verbose_json"
	listed := f.format == "json" || f.format == "verbose_json"
	switch {
	case timed && !can.Gives("segment"):
		return refuse("response_format", "response_format "+f.format+", since it gives no times of segments")
	case f.times && len(can.Timestamps) == 0:
		return refuse("timestamps", "timestamps")
	case f.times && f.format != "json":
		return routes.Unsupported("timestamps", "timestamps need response_format json.")
	case len(f.kinds) > 0 && !listed:
		return routes.Unsupported("timestamp_granularities", "timestamp_granularities need response_format "+
			"verbose_json.")
	case f.stream && f.format != "json" && f.format != "text":
		return routes.Unsupported("stream", "stream goes with response_format json or text only.")
	case f.stream && (f.times || len(f.kinds) > 0):
		return routes.Unsupported("stream", "A stream has no timestamps.")
	case f.prompt != "" && !can.Prompt:
		return refuse("prompt", "a prompt")
	case f.temperature != "" && !can.Temperature:
		return refuse("temperature", "a temperature")
	}
	for _, kind := range f.kinds {
		if !can.Gives(kind) {
			return refuse("timestamp_granularities", "timestamps of "+kind+"s")
		}
	}
	anyLanguage := slices.Contains(can.Languages, config.AnyLanguage)
	if f.language != "" && len(can.Languages) > 0 && !anyLanguage && !slices.Contains(can.Languages, f.language) {
		return refuse("language", "language "+f.language)
	}
	if len(can.Languages) > 0 {
		h.Language = f.language
	}
	h.Prompt, h.Temperature = f.prompt, f.temperature
	if len(f.kinds) > 0 && !timed {
		f.times = true
	}
	wants := func(kind string) bool {
		return f.times && can.Gives(kind) && (len(f.kinds) == 0 || slices.Contains(f.kinds, kind))
	}
	h.Words = wants("word") || f.format == "verbose_json" && slices.Contains(f.kinds, "word")
	h.Chars = wants("char")
	// Upstreams that give segments give the sound's length, too.
	h.Segments = can.Gives("segment")
	return nil
}
