package chat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"farebox/tests/rig"
)

// reader is how a server reads an object that has a member twice, or in other letters.
type reader struct {
	name        string
	first, fold bool
}

var readers = []reader{{name: "the last one wins"}, {name: "the first one wins", first: true},
	{name: "the last one in any letters wins", fold: true}}

// read decodes JSON as a server does.
func (r *reader) read(body []byte) (any, error) {
	return rig.Decode(body, func(object map[string]any, name string, value any) error {
		if r.fold {
			name = strings.ToLower(name)
		}
		if _, there := object[name]; !there || !r.first {
			object[name] = value
		}
		return nil
	})
}

// bought are the priced or checked requests that a body makes of an upstream.
type bought struct {
	Model, Stream, Choices string
	Caps                   []string
	Tools                  []string // their kinds
	Choice                 []string // kinds of tools that are chosen
	Media                  []string // links and data
	Kept                   []string // references to items that the upstream keeps from other requests
}

// buy returns one reader's findings in a body at a path. Top members that are unknown in chat
// completions pass there, as the specification says.
func buy(r *reader, path string, body []byte) (*bought, error) {
	root, err := r.read(body)
	object, ok := root.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("%q is not an object: %v", body, err)
	}
	b := &bought{}
	text := func(o map[string]any, name string) string {
		if v, there := o[name]; there && v != nil {
			return fmt.Sprint(v)
		}
		return ""
	}
	b.Model, b.Stream, b.Choices = text(object, "model"), text(object, "stream"), text(object, "n")
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		if v := text(object, name); v != "" {
			b.Caps = append(b.Caps, v)
		}
	}
	for _, config := range []string{"generationConfig", "generationconfig"} {
		if settings, ok := object[config].(map[string]any); ok {
			for name, v := range settings {
				if strings.EqualFold(name, "maxOutputTokens") {
					b.Caps = append(b.Caps, fmt.Sprint(v))
				}
			}
		}
	}
	b.Tools = kinds(object["tools"])
	b.Choice = kinds(object["tool_choice"])
	prompts := []string{"input", "messages", "system", "contents", "instructions"}
	var keeps []string
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		prompts = prompts[1:2]
	case strings.HasSuffix(path, "/responses"):
		keeps = []string{"context_management", "previous_response_id", "conversation", "prompt"}
	default:
		keeps = []string{"container", "diagnostics", "thread"}
	}
	for _, name := range prompts {
		b.turns(object[name], strings.HasSuffix(path, "/responses"))
	}
	for _, name := range keeps {
		if v, there := object[name]; there && v != nil {
			b.Kept = append(b.Kept, name)
		}
	}
	for _, list := range [][]string{b.Caps, b.Tools, b.Choice, b.Media, b.Kept} {
		slices.Sort(list)
	}
	return b, nil
}

// kinds are the types of tools, with the members by which some servers tell a tool's kind.
func kinds(v any) (list []string) {
	switch v := v.(type) {
	case []any:
		for _, tool := range v {
			list = append(list, kinds(tool)...)
		}
	case map[string]any:
		if kind, there := v["type"]; there && kind != nil {
			list = append(list, fmt.Sprint(kind))
		}
		for _, name := range []string{"googleSearch", "google_search", "codeExecution", "code_execution", "urlContext",
			"googlesearch", "codeexecution", "urlcontext"} {
			if v[name] != nil {
				list = append(list, name)
			}
		}
		if kind := v["type"]; kind == "allowed_tools" || kind == "namespace" {
			list = append(append(list, kinds(v["tools"])...), kinds(v["allowed_tools"])...)
		}
	}
	return list
}

// readOf are the members that are read in a part of each kind, and in its content. The parts of
// Gemini have no kind.
var readOf = map[string][]string{
	"": {"inlinedata", "filedata"}, "image_url": {"image_url", "file_id"}, "video_url": {"video_url"},
	"input_audio": {"input_audio"}, "file": {"file", "file_id"}, "input_image": {"image_url", "file_id"},
	"input_file": {"file_data", "file_url", "file_id"}, "image": {"source"}, "document": {"source"},
	"tool_result": {"content"}, "search_result": {"content"}, "container_upload": {"file_id"},
}

// turns finds the media of items and messages, and items that refer to kept content.
func (b *bought) turns(v any, items bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		turn, _ := item.(map[string]any)
		kind := fmt.Sprint(turn["type"])
		if items && (kind == "item_reference" || kind == "web_search_call" || kind == "reasoning" &&
			turn["encrypted_content"] == nil && turn["id"] != nil) {
			b.Kept = append(b.Kept, kind)
		}
		for _, name := range []string{"content", "parts", "output"} {
			b.parts(turn[name])
		}
	}
}

func (b *bought) parts(v any) {
	list, _ := v.([]any)
	for _, element := range list {
		part, _ := element.(map[string]any)
		kind, _ := part["type"].(string)
		for member, value := range part {
			if member = strings.ToLower(member); slices.Contains(readOf[kind], member) {
				b.carrier(member, value)
			}
		}
	}
}

// dataMembers are the members that are read in the carrier of a part's data.
var dataMembers = map[string][]string{
	"image_url": {"url"}, "video_url": {"url"}, "input_audio": {"data"}, "inlinedata": {"data"}, "filedata": {"fileuri"},
	"file": {"file_data", "file_id"}, "source": {"url", "data", "file_id", "content"},
}

// carrier notes a link, data or an id, or those in an object.
func (b *bought) carrier(name string, v any) {
	switch v := v.(type) {
	case string:
		switch name {
		case "content": // a text
		case "file_id":
			b.Kept = append(b.Kept, v)
		default:
			b.Media = append(b.Media, v)
		}
	case []any:
		b.parts(v)
	case map[string]any:
		for member, value := range v {
			if member = strings.ToLower(member); slices.Contains(dataMembers[name], member) {
				b.carrier(member, value)
			}
		}
	}
}

// readAlike is the common result of all readers of a body; they must agree, and find only
// sold features.
func readAlike(path string, body []byte) (*bought, error) {
	var alike *bought
	for i := range readers {
		b, err := buy(&readers[i], path, body)
		if err != nil {
			return nil, err
		}
		if alike != nil && !reflect.DeepEqual(alike, b) {
			return nil, fmt.Errorf("where %s %+v is read, where %s %+v", readers[0].name, *alike, readers[i].name, *b)
		}
		alike = b
	}
	for _, kind := range slices.Concat(alike.Tools, alike.Choice) {
		if !slices.Contains([]string{"function", "custom", "tool", "any", "auto", "none", "allowed_tools", "x_search"}, kind) {
			return nil, fmt.Errorf("the upstream is to run %q", kind)
		}
	}
	if len(alike.Kept) > 0 {
		return nil, fmt.Errorf("the upstream is to use kept content: %q", alike.Kept)
	}
	return alike, nil
}
