package responses

import (
	"bytes"
	"encoding/json"

	"farebox/proxy/jsontext"
)

// nameCall gives a call its name, and makes it one of the client's tool that the function
// represents. flat is as between the quotes of a JSON string.
func (f *Form) nameCall(it *item, flat []byte) {
	t := f.toolOf(flat)
	if t == nil || it.kind != callItem {
		it.name = append(it.name, flat...)
		return
	}
	it.kind, it.wrapped = callKinds[t.kind], t.kind != functionTool
	it.name = jsontext.AppendEscaped(it.name, t.name)
	it.space = jsontext.AppendEscaped(it.space, t.space)
}

// isCall says whether an item is a call of a tool that the client carries out.
func (i *item) isCall() bool {
	switch i.kind {
	case callItem, customItem, toolSearchItem, shellItem:
		return true
	}
	return false
}

// unwrap makes the text of a call the input of its tool: the text of a custom tool, or an
// object. Until then it is the arguments of a function, as between the quotes of a JSON
// string. A model may write arguments that are no JSON; a custom tool is given them as they
// are.
func (i *item) unwrap() (did bool) {
	if !i.wrapped {
		return false
	}
	i.wrapped = false
	arguments := jsontext.AppendUnescaped(nil, i.text)
	object := bytes.TrimSpace(arguments)
	if !json.Valid(object) || object[0] != '{' {
		object = nil
	}
	switch i.kind {
	case customItem:
		if input := jsontext.MemberOf(object, "input"); len(input) > 1 && input[0] == '"' {
			i.text = append(i.text[:0], input[1:len(input)-1]...)
		}
	case toolSearchItem:
		i.text = appendCompact(i.text[:0], object)
	case shellItem:
		i.text = appendAction(i.text[:0], object)
	}
	return true
}

// appendCompact appends an object without spaces: events have no line breaks.
func appendCompact(dst, object []byte) []byte {
	if object == nil {
		return append(dst, "{}"...)
	}
	b := bytes.NewBuffer(dst)
	_ = json.Compact(b, object) // it is valid
	return b.Bytes()
}

// action is the action of a call of local_shell.
type action struct {
	Type      string            `json:"type"`
	Command   []string          `json:"command"`
	Timeout   *int64            `json:"timeout_ms,omitempty"`
	Directory string            `json:"working_directory,omitempty"`
	Env       map[string]string `json:"env"`
}

// appendAction appends the action that a model's arguments ask for. Members that are not
// of their kind are left out.
func appendAction(dst, object []byte) []byte {
	a := action{}
	if object != nil {
		_ = json.Unmarshal(object, &a) // members that cannot be read stay empty
	}
	a.Type = "exec"
	if a.Command == nil {
		a.Command = []string{}
	}
	if a.Env == nil {
		a.Env = map[string]string{}
	}
	text, err := json.Marshal(&a)
	if err != nil {
		return append(dst, `{"type":"exec","command":[],"env":{}}`...)
	}
	return append(dst, text...)
}

// appendObject appends the object of a call of tool_search or local_shell; bare: it is not
// known yet.
func (i *item) appendObject(dst []byte, bare bool) []byte {
	switch {
	case !bare && !i.wrapped && len(i.text) > 0:
		return append(dst, i.text...)
	case i.kind == shellItem:
		return appendAction(dst, nil)
	}
	return append(dst, "{}"...)
}
