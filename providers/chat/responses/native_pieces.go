package responses

import (
	"bytes"
	"slices"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// A piece written here goes into a body that its upstream reads by rules of its own, such
// as that the last of two members holds. It has the members of these Shapes, each once.
var (
	toolPiece   = pieceOf(nil, "type", "name", "description", "parameters", "strict", "format")
	spacePiece  = pieceOf(map[string]*scan.Shape{"tools": toolPiece}, "type", "name", "description", "tools")
	clientPiece = pieceOf(nil, "type", "execution", "description", "parameters")
	toolsPiece  = pieceOf(map[string]*scan.Shape{"list": pieceOf(map[string]*scan.Shape{"tools": toolPiece}, "type", "name",
		"description", "parameters", "strict", "format", "tools", "execution")}, "list")
	actionPiece = pieceOf(nil, "type", "command", "timeout_ms", "working_directory", "env", "user")
	choicePiece = pieceOf(map[string]*scan.Shape{"tools": pieceOf(nil, "type", "name", "namespace")}, "type", "name",
		"mode", "tools", "namespace")
	partPiece = pieceOf(map[string]*scan.Shape{
		"input_audio": pieceOf(nil, "data", "format"), "video_url": pieceOf(nil, "url"),
	}, "type", "text", "refusal", "image_url", "detail", "file_data", "file_url", "filename", "input_audio", "video_url")
	listPiece = pieceOf(map[string]*scan.Shape{"list": partPiece}, "list")
)

func pieceOf(in map[string]*scan.Shape, names ...string) *scan.Shape {
	return scan.NewShape(scan.Members(in, names...)...)
}

// object puts an object that build appends in the place of a field's value.
func (p *patcher) object(i int32, shape *scan.Shape, build func(dst []byte) []byte) {
	p.reread(i, p.write(build), shape, 0, 0)
}

// list is object for a list of parts.
func (p *patcher) list(i int32, build func(dst []byte) []byte) {
	const head, tail = `{"list":[`, `]}`
	text := p.write(func(dst []byte) []byte { return append(build(append(dst, head...)), tail...) })
	p.reread(i, text, listPiece, len(head)-1, len(tail)-1)
}

// reread reads a written piece again, and puts it in the place of a field's value but for
// some bytes at both ends.
func (p *patcher) reread(i int32, text []byte, shape *scan.Shape, from, less int) {
	value := text[from : len(text)-less]
	if bytes.Equal(value, p.doc.Fields[i].Raw(p.body)) {
		return
	}
	if err := p.s.Reread(text, shape); err != nil && p.err == nil {
		p.err = err
	}
	p.replace(i, value)
}

// appendMember appends a member behind others; nil if absent.
func appendMember(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	return append(append(append(dst, ','), name...), value...)
}

// has says that an object has no members but some.
func (p *patcher) has(i int32, ids ...int) bool {
	f := &p.doc.Fields[i]
	n := int32(0)
	for m := i + 1; m < f.Next; m = p.doc.Fields[m].Next {
		if !slices.Contains(ids, int(p.doc.Fields[m].Name)) {
			return false
		}
		n++
	}
	return n == f.Len
}

// tools writes the client's own tools in this form's spelling. Tools that the upstream
// would carry out at the operator's cost have no price and are left out.
func (p *patcher) tools() {
	list := p.doc.TopIndex(TopTools)
	if list >= 0 && p.doc.Fields[list].Kind == scan.Array {
		for i := list + 1; i < p.doc.Fields[list].Next; i = p.doc.Fields[i].Next {
			if !p.clients(i) {
				p.c.LeftOut.Add(omission(string(p.text(p.doc.Member(i, ToolType)))))
				p.without(list, i)
				continue
			}
			p.tool(i)
		}
	}
	p.choice()
}

// clients says whether the client carries a tool out.
func (p *patcher) clients(i int32) bool {
	if p.doc.Fields[i].Kind != scan.Object {
		return false
	}
	switch string(p.text(p.doc.Member(i, ToolType))) {
	case "function", "custom", "namespace", "local_shell":
		return true
	case "tool_search":
		return string(p.text(p.doc.Member(i, ToolExecution))) == "client"
	}
	return false
}

// tool writes a tool that is not as this form has it.
func (p *patcher) tool(i int32) {
	shape := toolPiece
	switch string(p.text(p.doc.Member(i, ToolType))) {
	case "function", "custom":
		if p.has(i, ToolType, ToolName, ToolDescription, ToolParameters, ToolStrict, ToolFormat) {
			return
		}
	case "namespace":
		shape = spacePiece
	case "tool_search":
		shape = clientPiece
	}
	p.object(i, shape, func(dst []byte) []byte { return p.appendTool(dst, i) })
}

// appendTool appends a tool of the client's own with the members that this form has.
func (p *patcher) appendTool(dst []byte, i int32) []byte {
	kind := string(p.text(p.doc.Member(i, ToolType)))
	dst = append(append(append(dst, `{"type":"`...), kind...), '"')
	switch kind {
	case "function", "custom":
		dst = appendMember(dst, `"name":`, orNull(p.raw(toolMember(p.doc, i, kind, ToolName))))
		for _, m := range toolMembers[kind] {
			dst = appendMember(dst, m.name, p.raw(toolMember(p.doc, i, kind, m.id)))
		}
	case "namespace":
		dst = appendMember(dst, `"name":`, orNull(p.raw(p.doc.Member(i, ToolName))))
		dst = appendMember(dst, `"description":`, p.raw(p.doc.Member(i, ToolDescription)))
		dst = p.appendTools(append(dst, `,"tools":`...), p.doc.Member(i, ToolTools), false)
	case "tool_search":
		dst = append(dst, `,"execution":"client"`...)
		dst = appendMember(dst, `"description":`, p.raw(p.doc.Member(i, ToolDescription)))
		dst = appendMember(dst, `"parameters":`, p.raw(p.doc.Member(i, ToolParameters)))
	}
	return append(dst, '}')
}

// appendTools appends the client's own tools of a list.
func (p *patcher) appendTools(dst []byte, list int32, spaces bool) []byte {
	dst = append(dst, '[')
	for i := list + 1; list >= 0 && i < p.doc.Fields[list].Next; i = p.doc.Fields[i].Next {
		if kind := string(p.text(p.doc.Member(i, ToolType))); p.clients(i) && (spaces || kind != "namespace") {
			dst = p.appendTool(appendComma(dst), i)
		}
	}
	return append(dst, ']')
}

// choice writes the choice among the tools.
func (p *patcher) choice() {
	at := p.doc.TopIndex(TopToolChoice)
	if at < 0 || p.doc.Fields[at].Kind != scan.Object {
		return
	}
	one := func(dst []byte, i int32, kind string) []byte {
		dst = append(append(append(dst, `{"type":"`...), kind...), '"')
		if kind != "local_shell" {
			dst = appendMember(dst, `"name":`, orNull(p.raw(chosenName(p.doc, i, kind))))
			space := ChosenNamespace
			if i == at {
				space = ChoiceNamespace
			}
			dst = appendMember(dst, `"namespace":`, p.raw(p.doc.Member(i, space)))
		}
		return append(dst, '}')
	}
	switch kind := string(p.text(p.doc.Member(at, ChoiceType))); kind {
	case "function", "custom", "local_shell":
		p.object(at, choicePiece, func(dst []byte) []byte { return one(dst, at, kind) })
	case "allowed_tools":
		list := p.doc.Member(at, ChoiceTools)
		p.object(at, choicePiece, func(dst []byte) []byte {
			dst = append(dst, `{"type":"allowed_tools"`...)
			dst = append(appendMember(dst, `"mode":`, p.raw(p.doc.Member(at, ChoiceMode))), `,"tools":[`...)
			for i := list + 1; list >= 0 && i < p.doc.Fields[list].Next; i = p.doc.Fields[i].Next {
				if i > list+1 {
					dst = append(dst, ',')
				}
				dst = one(dst, i, string(p.text(p.doc.Member(i, ChoiceType))))
			}
			return append(dst, "]}"...)
		})
	default: // auto, none or required
		p.replace(at, p.raw(p.doc.Member(at, ChoiceType)))
	}
}

// itemMembers are those that an item of a kind may have.
var itemMembers = map[string][]int{
	"message":                 {ItemType, ItemRole, ItemContent, ItemID, ItemStatus, ItemPhase},
	"reasoning":               {ItemType, ItemID, ItemStatus, ItemSummary, ItemContent, ItemEncryptedContent},
	"function_call":           {ItemType, ItemID, ItemStatus, ItemCallID, ItemName, ItemNamespace, ItemArguments},
	"custom_tool_call":        {ItemType, ItemID, ItemStatus, ItemCallID, ItemName, ItemNamespace, ItemInput},
	"function_call_output":    {ItemType, ItemID, ItemStatus, ItemCallID, ItemOutput},
	"custom_tool_call_output": {ItemType, ItemID, ItemStatus, ItemCallID, ItemOutput},
	"tool_search_call":        {ItemType, ItemID, ItemStatus, ItemCallID, ItemArguments, ItemExecution},
	"tool_search_output":      {ItemType, ItemID, ItemStatus, ItemCallID, ItemTools, ItemExecution},
	"additional_tools":        {ItemType, ItemID, ItemRole, ItemTools},
	"local_shell_call":        {ItemType, ItemID, ItemStatus, ItemCallID, ItemAction},
	"local_shell_call_output": {ItemType, ItemID, ItemStatus, ItemCallID, ItemOutput},
}

// input writes items and parts in this form's own spelling, and takes out those that this
// upstream cannot read, or would look up by their ids in the operator's account: thoughts
// that another maker's model had, thoughts without a text of their own, and searches.
func (p *patcher) input() {
	list := p.doc.TopIndex(TopInput)
	if list < 0 || p.doc.Fields[list].Kind != scan.Array {
		return
	}
	if f, ok := p.c.Form.(*Form); ok && f.missed {
		p.c.LeftOut.Add(missedThought)
	}
	for i := list + 1; i < p.doc.Fields[list].Next; i = p.doc.Fields[i].Next {
		if p.doc.Fields[i].Kind != scan.Object {
			continue
		}
		kind := kindOfItem(p.body, p.doc, i)
		members := itemMembers[kind]
		if kind == "reasoning" {
			sealed := p.text(p.doc.Member(i, ItemEncryptedContent))
			content := p.doc.Member(i, ItemContent)
			alone := len(sealed) == 0
			if bytes.HasPrefix(sealed, []byte(sealHead)) ||
				alone && (content < 0 || p.doc.Fields[content].Kind != scan.Array || p.doc.Fields[content].Len == 0) {
				members = nil
			} else if alone {
				members = thoughtAlone
			}
		}
		if members == nil {
			if name := hosted[kind]; name != "" {
				p.c.LeftOut.Add(name)
			}
			p.without(list, i)
			continue
		}
		p.item(i, kind, members)
	}
}

// thoughtAlone are the members of a thought that is there as text: its id refers to
// nothing but a copy that an upstream may have kept.
var thoughtAlone = []int{ItemType, ItemStatus, ItemSummary, ItemContent}

// item cuts the members that an item of its kind does not have, and writes the others.
func (p *patcher) item(i int32, kind string, members []int) {
	if !p.has(i, members...) {
		shape := p.doc.Fields[i].Shape
		p.cutOthers(int(p.doc.Fields[i].From)+1, func(name []byte) bool {
			return slices.Contains(members, shape.ID(string(name)))
		})
	}
	switch kind {
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		p.result(p.doc.Member(i, ItemOutput))
		return
	case "tool_search_output", "additional_tools":
		p.toolList(p.doc.Member(i, ItemTools))
		return
	case "local_shell_call":
		p.action(p.doc.Member(i, ItemAction))
		return
	case "reasoning":
		p.summary(p.doc.Member(i, ItemSummary))
	case "message":
	default:
		return
	}
	content := p.doc.Member(i, ItemContent)
	if content < 0 || p.doc.Fields[content].Kind != scan.Array {
		return
	}
	assistant := string(p.text(p.doc.Member(i, ItemRole))) == "assistant"
	for at := content + 1; at < p.doc.Fields[content].Next; at = p.doc.Fields[at].Next {
		switch {
		case p.doc.Fields[at].Kind != scan.Object:
		case kind == "reasoning":
			p.texts(at, "reasoning_text", `"text":`, PartText)
		default:
			p.part(at, assistant)
		}
	}
}

// toolList writes the tools of an item.
func (p *patcher) toolList(list int32) {
	if list < 0 || p.doc.Fields[list].Kind != scan.Array {
		return
	}
	const head, tail = `{"list":`, `}`
	text := p.write(func(dst []byte) []byte {
		return append(p.appendTools(append(dst, head...), list, true), tail...)
	})
	p.reread(list, text, toolsPiece, len(head), len(tail))
}

// action writes the action of a call of local_shell.
func (p *patcher) action(i int32) {
	action := p.raw(i)
	p.object(i, actionPiece, func(dst []byte) []byte {
		dst = append(dst, `{"type":"exec"`...)
		for _, name := range []string{"command", "timeout_ms", "working_directory", "env", "user"} {
			dst = appendMember(dst, `"`+name+`":`, jsontext.MemberOf(action, name))
		}
		return append(dst, '}')
	})
}

// without takes an element out of a list.
func (p *patcher) without(list, i int32) {
	from, to := int(p.doc.Fields[i].From), int(p.doc.Fields[i].To)
	if next := p.doc.Fields[i].Next; next < p.doc.Fields[list].Next {
		to = int(p.doc.Fields[next].From)
	} else if n := len(p.patches); i > list+1 {
		// The last one goes with the comma before it, unless that went already.
		for from--; p.body[from] != ','; from-- {
		}
		if n > 0 && p.patches[n-1].To > from && len(p.patches[n-1].With) == 0 {
			from = p.patches[n-1].From
			p.patches = p.patches[:n-1]
			for from--; p.body[from] != ',' && p.body[from] != '['; from-- {
			}
			if p.body[from] == '[' {
				from++
			}
		}
	}
	p.patches = append(p.patches, proxy.Patch{From: from, To: to})
}

// summary writes texts as parts.
func (p *patcher) summary(i int32) {
	list := p.raw(i)
	if len(list) == 0 || list[0] != '[' {
		return
	}
	p.list(i, func(dst []byte) []byte {
		eachSummary(list, func(words []byte) {
			dst = append(appendComma(dst), `{"type":"summary_text","text":"`...)
			dst = append(append(dst, words...), `"}`...)
		})
		return dst
	})
}

// appendComma appends one behind an element of a list.
func appendComma(dst []byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return dst
}

// result writes the result of a call: texts and pictures as parts, and other values as
// the text of its JSON. Results in other parts were refused.
func (p *patcher) result(i int32) {
	value := p.doc.Fields[i].Raw(p.body)
	switch {
	case value[0] == '"':
	case value[0] == '[' && arePartsOf(value):
		p.list(i, func(dst []byte) []byte {
			eachPart(value, func(part, kind, words []byte) {
				link, detail := pictureOf(part)
				switch {
				case !isImage(kind):
				case link != nil && p.unseen == 0:
					dst = append(append(appendComma(dst), `{"type":"input_image","image_url":`...), link...)
					dst = append(appendMember(dst, `"detail":`, detail), '}')
					return
				case link != nil:
					p.unseen--
				default:
					p.c.LeftOut.Add(omission("output.input_image"))
				}
				if isImage(kind) {
					words = []byte(`"` + dialect.NotShown + `"`)
				}
				dst = append(appendComma(dst), `{"type":"input_text","text":`...)
				dst = append(append(dst, orNull(words)...), '}')
			})
			return dst
		})
	default:
		p.replace(i, p.write(func(dst []byte) []byte { return jsontext.AppendString(dst, value) }))
	}
}

// texts writes a part that is a text.
func (p *patcher) texts(i int32, kind, name string, id int) {
	at := p.doc.Member(i, PartType)
	words := p.raw(p.doc.Member(i, id))
	known := p.alone(i, PartType, id)
	switch {
	case known && string(p.text(at)) == kind:
	case known && at >= 0:
		p.replace(at, p.write(func(dst []byte) []byte { return jsontext.AppendString(dst, kind) }))
	default:
		p.object(i, partPiece, func(dst []byte) []byte {
			dst = append(append(append(dst, `{"type":"`...), kind...), '"')
			return append(appendMember(dst, name, orNull(words)), '}')
		})
	}
}

// alone says that of the members that a Shape names an object has some only. Others, such
// as the annotations of a text, say nothing that is read or paid for.
func (p *patcher) alone(i int32, ids ...int) bool {
	for m := i + 1; m < p.doc.Fields[i].Next; m = p.doc.Fields[m].Next {
		if !slices.Contains(ids, int(p.doc.Fields[m].Name)) {
			return false
		}
	}
	return true
}

// part writes a part that has the spelling of chat completions, or members that it does
// not need.
func (p *patcher) part(i int32, assistant bool) {
	switch kind := string(p.text(p.doc.Member(i, PartType))); kind {
	case "text", "input_text", "output_text":
		want := "input_text"
		if assistant {
			want = "output_text"
		}
		p.texts(i, want, `"text":`, PartText)
	case "refusal":
		p.texts(i, kind, `"refusal":`, PartRefusal)
	case "image_url", "input_image":
		at := p.doc.Member(i, PartImageURL)
		plain := at < 0 || p.doc.Fields[at].Kind != scan.Object
		if kind == "input_image" && plain && p.has(i, PartType, PartImageURL, PartDetail) {
			return
		}
		link, detail := p.raw(at), p.raw(p.doc.Member(i, PartDetail))
		if !plain {
			link, detail = p.raw(p.doc.Member(at, ImageURL)), p.raw(p.doc.Member(at, ImageDetail))
		}
		p.object(i, partPiece, func(dst []byte) []byte {
			dst = append(append(dst, `{"type":"input_image","image_url":`...), orNull(link)...)
			return append(appendMember(dst, `"detail":`, detail), '}')
		})
	case "file", "input_file":
		if kind == "input_file" && (p.has(i, PartType, PartFileData, PartFilename) ||
			p.has(i, PartType, PartFileURL, PartFilename)) {
			return
		}
		p.file(i)
	case "input_audio", "video_url":
		p.carrier(i, kind)
	}
}

// file writes a file: its data, or where it is.
func (p *patcher) file(i int32) {
	link, name := filePart(p.body, p.doc, i)
	member := `{"type":"input_file","file_data":`
	if len(link) > 0 && !bytes.HasPrefix(link, []byte(`"data:`)) {
		member = `{"type":"input_file","file_url":`
	}
	p.object(i, partPiece, func(dst []byte) []byte {
		return append(appendMember(append(append(dst, member...), orNull(link)...), `"filename":`, name), '}')
	})
}

// carrier writes sound or a video.
func (p *patcher) carrier(i int32, kind string) {
	at := p.doc.Member(i, PartInputAudio)
	if kind == "video_url" {
		at = p.doc.Member(i, PartVideoURL)
	}
	if at < 0 || p.doc.Fields[at].Kind != scan.Object {
		return
	}
	p.object(i, partPiece, func(dst []byte) []byte {
		dst = append(append(append(dst, `{"type":"`...), kind...), `","`...)
		dst = append(append(dst, kind...), `":{`...)
		if kind == "video_url" {
			dst = append(append(dst, `"url":`...), orNull(p.raw(p.doc.Member(at, VideoURL)))...)
			return append(dst, "}}"...)
		}
		dst = append(append(dst, `"data":`...), orNull(p.raw(p.doc.Member(at, AudioData)))...)
		return append(appendMember(dst, `"format":`, p.raw(p.doc.Member(at, AudioKind))), "}}"...)
	})
}
