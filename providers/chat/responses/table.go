package responses

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// toolKind is the kind of a tool for the client that carries it out.
type toolKind uint8

const (
	functionTool toolKind = iota
	customTool            // its input is one text
	searchTool            // tool_search: the client finds tools that it has kept back
	shellTool             // local_shell
)

// itemKinds of the calls of tools, by toolKind.
var callKinds = [...]itemKind{callItem, customItem, toolSearchItem, shellItem}

// tool is one that the client carries out. Models have only functions, so that each tool
// is a function with a name of its own.
type tool struct {
	kind  toolKind
	at    int32  // where it is declared
	space []byte // the namespace, empty: none
	name  []byte
	flat  []byte // the function's name
}

// toolList is a list of tools in the input, which has table[from:to]: a tool that was declared
// before is not in it.
type toolList struct{ at, from, to int32 }

// listOf has the tools of a list in the input.
func (f *Form) listOf(at int32) []tool {
	i, found := slices.BinarySearchFunc(f.lists, at, func(l toolList, at int32) int { return cmp.Compare(l.at, at) })
	if !found {
		return nil
	}
	return f.table[f.lists[i].from:f.lists[i].to]
}

const (
	// plainSpace is the namespace whose functions keep their names.
	plainSpace = "functions"
	// maxName is how long a function's name may be upstream.
	maxName = 64
	// hashLength is the number of digits that tell names apart.
	hashLength = 8
)

// declare reads the tools of the request: its own, those that input adds, and those that
// the client has found since.
func (f *Form) declare() {
	f.table, f.names, f.left = f.table[:0], f.names[:0], dialect.LeftOut{}
	f.byName, f.byFlat, f.lists = nil, nil, f.lists[:0]
	list := f.doc.TopIndex(TopTools)
	f.declareAll(list, nil)
	input := f.doc.TopIndex(TopInput)
	if input < 0 || f.doc.Fields[input].Kind != scan.Array {
		return
	}
	for i := input + 1; i < f.doc.Fields[input].Next; i = f.doc.Fields[i].Next {
		if f.doc.Fields[i].Kind != scan.Object {
			continue
		}
		if kind := f.kind(i); kind == "additional_tools" || kind == "tool_search_output" {
			list := f.doc.Member(i, ItemTools)
			from := len(f.table)
			f.declareAll(list, nil)
			if list >= 0 {
				f.lists = append(f.lists, toolList{list, int32(from), int32(len(f.table))})
			}
		}
	}
}

// declareAll reads a list of tools.
func (f *Form) declareAll(list int32, space []byte) {
	if list < 0 || f.doc.Fields[list].Kind != scan.Array {
		return
	}
	for i := list + 1; i < f.doc.Fields[list].Next; i = f.doc.Fields[i].Next {
		if f.doc.Fields[i].Kind != scan.Object {
			continue
		}
		switch kind := string(f.text(f.doc.Member(i, ToolType))); kind {
		case "function", "custom":
			of := functionTool
			if kind == "custom" {
				of = customTool
			}
			name := f.text(toolMember(f.doc, i, kind, ToolName))
			if name == nil {
				f.problem(f.path(i, "name"), "is required.")
				continue
			}
			f.addTool(of, i, space, f.plainName(name))
		case "namespace":
			name := f.text(f.doc.Member(i, ToolName))
			switch {
			case space != nil:
				f.problem(f.path(i, "type"), "a namespace cannot contain another namespace.")
			case name == nil:
				f.problem(f.path(i, "name"), "is required in a tool of type namespace.")
			default:
				f.declareAll(f.doc.Member(i, ToolTools), f.plainName(name))
			}
		case "tool_search":
			if string(f.text(f.doc.Member(i, ToolExecution))) == "client" {
				f.addTool(searchTool, i, nil, []byte("tool_search"))
			} else {
				f.omit(kind)
			}
		case "local_shell":
			f.addTool(shellTool, i, nil, []byte("local_shell"))
		default:
			if !f.searches(kind) {
				f.omit(kind)
			}
		}
	}
}

// searches says whether a tool is carried out here.
func (f *Form) searches(kind string) bool {
	return kind == "x_search" || isWebSearch([]byte(kind)) && !f.searchless
}

// plainName is a name without escapes.
func (f *Form) plainName(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	from := len(f.names)
	f.names = jsontext.AppendUnescaped(f.names, text)
	return f.names[from:]
}

// addTool gives a tool a function's name that no other has. A tool that is declared twice
// is one.
func (f *Form) addTool(kind toolKind, at int32, space, name []byte) {
	if t := f.toolNamed(kind, space, name); t != nil && t.kind == kind {
		return
	}
	flat := f.flatName(kind, space, name, false)
	if f.toolFlat(flat) != nil {
		flat = f.flatName(kind, space, name, true)
	}
	f.table = append(f.table, tool{kind, at, space, name, flat})
	switch n := len(f.table); {
	case n == indexedTools:
		f.byName, f.byFlat = map[string][]int32{}, map[string]int32{}
		for i := range f.table {
			f.index(i)
		}
	case n > indexedTools:
		f.index(n - 1)
	}
}

// indexedTools is how many tools are found by maps; fewer are searched one by one.
const indexedTools = 32

// index adds a tool to the maps. Of tools with one flat name the first one is found.
func (f *Form) index(i int) {
	t := &f.table[i]
	key := f.nameKey(t.space, t.name)
	f.byName[string(key)] = append(f.byName[string(key)], int32(i))
	if _, taken := f.byFlat[string(t.flat)]; !taken {
		f.byFlat[string(t.flat)] = int32(i)
	}
}

// nameKey is the key of a tool in byName. Names with a zero byte may share one.
func (f *Form) nameKey(space, name []byte) []byte {
	f.key = append(append(append(f.key[:0], space...), 0), name...)
	return f.key
}

// toolsNamed are the tools of a client's name, of any kind.
func (f *Form) toolsNamed(space, name []byte) iter.Seq[*tool] {
	return func(yield func(*tool) bool) {
		match := func(t *tool) bool { return bytes.Equal(t.space, space) && bytes.Equal(t.name, name) }
		if f.byName == nil {
			for i := range f.table {
				if match(&f.table[i]) && !yield(&f.table[i]) {
					return
				}
			}
			return
		}
		for _, i := range f.byName[string(f.nameKey(space, name))] {
			if match(&f.table[i]) && !yield(&f.table[i]) {
				return
			}
		}
	}
}

// toolFlat is the first tool that a function represents; nil: there is no such function.
func (f *Form) toolFlat(flat []byte) *tool {
	if f.byFlat != nil {
		if i, found := f.byFlat[string(flat)]; found {
			return &f.table[i]
		}
		return nil
	}
	for i := range f.table {
		if bytes.Equal(f.table[i].flat, flat) {
			return &f.table[i]
		}
	}
	return nil
}

// flatName is the name of the function that represents a tool: NAMESPACE__NAME. A name that is
// too long, or has other characters than upstreams take, ends in a hash of the whole; so
// does a name that would represent two tools.
func (f *Form) flatName(kind toolKind, space, name []byte, hashed bool) []byte {
	if len(space) == 0 && kind == functionTool && !hashed {
		return name
	}
	from := len(f.names)
	if len(space) > 0 && string(space) != plainSpace {
		f.names = append(append(f.names, space...), "__"...)
	}
	f.names = append(f.names, name...)
	flat := f.names[from:]
	for i, c := range flat {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			flat[i], hashed = '_', true
		}
	}
	if !hashed && len(flat) <= maxName {
		return flat
	}
	h := sha256.New()
	_, _ = h.Write(append(append([]byte{byte(kind)}, space...), 0))
	_, _ = h.Write(name)
	if most := maxName - 1 - hashLength; len(flat) > most {
		f.names = f.names[:from+most]
	}
	f.names = append(f.names, '_')
	f.names = hex.AppendEncode(f.names, h.Sum(nil)[:hashLength/2])
	return f.names[from:]
}

// toolNamed is the tool of a client's name, nil: it is not declared. Clients name a tool's
// kind in some places only.
func (f *Form) toolNamed(kind toolKind, space, name []byte) *tool {
	var found *tool
	for t := range f.toolsNamed(space, name) {
		if found = t; t.kind == kind {
			break
		}
	}
	return found
}

// toolOf is the tool that a model's call is for, nil: a function of that name.
func (f *Form) toolOf(flat []byte) *tool {
	t := f.toolFlat(flat)
	if t != nil && t.kind == functionTool && len(t.space) == 0 && bytes.Equal(t.flat, t.name) {
		return nil
	}
	return t
}

// function appends the name of the function that represents a tool, with its quotes. name
// and space are texts of the client's body.
func (f *Form) function(dst []byte, kind toolKind, space, name []byte) []byte {
	space, name = f.plainName(space), f.plainName(name)
	if t := f.toolNamed(kind, space, name); t != nil {
		return jsontext.AppendString(dst, t.flat)
	}
	return jsontext.AppendString(dst, f.flatName(kind, space, name, false))
}

// hosted are the tools and items of providers that are named when they are left out.
var hosted = map[string]dialect.Omission{
	"code_interpreter": "tools.code_interpreter", "file_search": "tools.file_search",
	"computer_use_preview": "tools.computer_use_preview", "computer": "tools.computer",
	"image_generation": "tools.image_generation", "mcp": "tools.mcp", "shell": "tools.shell",
	"apply_patch": "tools.apply_patch", "tool_search": "tools.tool_search", "web_search": "tools.web_search",
	"web_search_preview": "tools.web_search",

	"compaction": "input.compaction", "image_generation_call": "input.image_generation_call",
	"code_interpreter_call": "input.code_interpreter_call", "file_search_call": "input.file_search_call",
	"mcp_call": "input.mcp_call", "mcp_list_tools": "input.mcp_list_tools",
	"output.input_image": "input.output.image",
}

// omit notes that a tool or an item is left out, since it is not offered here.
func (f *Form) omit(kind string) { f.left.Add(omission(kind)) }

// omission is the name of a tool or an item that is left out.
func omission(kind string) dialect.Omission {
	name := hosted[kind]
	switch {
	case name != "":
		return name
	case isWebSearch([]byte(kind)):
		return hosted["web_search"]
	}
	return "tools.other"
}
