package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return r.value(d)
}

func (r *reader) value(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := r.value(d)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if r.fold {
				name = strings.ToLower(name)
			}
			value, err := r.value(d)
			if err != nil {
				return nil, err
			}
			if _, there := object[name]; !there || !r.first {
				object[name] = value
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// bought is what a body has an upstream do, as far as it is priced or checked.
type bought struct {
	Model, Stream, Choices string
	Caps                   []string
	Tools                  []string // their kinds
	Choice                 []string // kinds of tools that are chosen
	Media                  []string // links and data
	Kept                   []string // what the upstream has kept from other requests
}

// buy says what one reader finds in a body of any form.
func buy(r *reader, body []byte) (*bought, error) {
	root, err := r.read(body)
	object, ok := root.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("%q is no object: %v", body, err)
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
	for _, name := range []string{"input", "messages", "system", "contents", "instructions"} {
		b.collect("", object[name])
	}
	for _, name := range []string{"context_management", "previous_response_id", "conversation", "prompt", "container",
		"mcp_servers"} {
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
		for _, name := range []string{"tools", "allowed_tools"} {
			list = append(list, kinds(v[name])...)
		}
	}
	return list
}

// collect finds media, and what stands for something that is kept elsewhere.
func (b *bought) collect(name string, v any) {
	switch v := v.(type) {
	case string:
		switch {
		case strings.EqualFold(name, "arguments"), strings.EqualFold(name, "text"), strings.EqualFold(name, "content"),
			strings.EqualFold(name, "output"):
		case strings.HasPrefix(v, "http"), strings.HasPrefix(v, "data:"):
			b.Media = append(b.Media, v)
		case strings.EqualFold(name, "file_id"):
			b.Kept = append(b.Kept, v)
		}
	case []any:
		for _, element := range v {
			b.collect(name, element)
		}
	case map[string]any:
		switch kind := fmt.Sprint(v["type"]); {
		case kind == "item_reference", kind == "web_search_call", kind == "reasoning" && v["encrypted_content"] == nil &&
			v["id"] != nil:
			b.Kept = append(b.Kept, kind)
		}
		for member, value := range v {
			if strings.EqualFold(member, "arguments") || strings.EqualFold(member, "args") ||
				strings.EqualFold(member, "parameters") {
				continue // the client's own
			}
			b.collect(member, value)
		}
	}
}

// readAlike is what all readers find in a body; they must find the same.
func readAlike(body []byte) (*bought, error) {
	var alike *bought
	for i := range readers {
		b, err := buy(&readers[i], body)
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
		return nil, fmt.Errorf("the upstream is to take what it has kept: %q", alike.Kept)
	}
	return alike, nil
}
