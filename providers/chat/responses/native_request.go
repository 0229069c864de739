package responses

import (
	"bytes"
	"slices"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

var (
	path       = []byte("/responses")
	falseText  = []byte("false")
	storeFalse = []byte(`"store":false,`)
)

// cutHere are the members that no upstream is sent: those that would reach into the
// operator's account, in which all customers are one, those that are ours, and those
// that are without effect here (addendum 6.1).
var cutHere = []int{
	TopPreviousResponseID, TopConversation, TopBackground, TopUser, TopFallbacks, TopAnonUserID, TopWebSearch, TopN,
	TopStop, TopSeed,
}

// keptHere are the members that hold what we promise an upstream's operator: what may
// be produced, and that nothing is kept. A list of what is not sent is one for chat
// completions, which may not have max_output_tokens beside their own cap; here it is
// the cap.
var keptHere = []int{TopModel, TopInput, TopStream, TopMaxOutputTokens, TopStore, TopTools}

// Request is dialect.Dialect: it names what must change of the client's own body.
func (Native) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	r.Path, r.Body, r.Accept = path, c.Told, "application/json"
	if c.Stream {
		r.Accept = "text/event-stream"
	}
	s.Buf, s.Cuts, s.Picks = s.Buf[:0], s.Cuts[:0], s.Picks[:0]
	p := patcher{c: c, body: c.Told, doc: c.ToldDoc, s: s, patches: r.Patches[:0]}
	p.top(t)
	p.limits()
	p.instructions()
	p.tools()
	p.input()
	r.Patches = p.finish()
	return p.err()
}

// patcher collects the patches of one request in any order.
type patcher struct {
	c       *dialect.Chat
	body    []byte
	doc     *scan.Document
	s       *dialect.Scratch
	patches []proxy.Patch
	no      *dialect.Unsupported
}

func (p *patcher) err() error {
	if p.no != nil {
		return p.no
	}
	return nil
}

func (p *patcher) text(i int32) []byte { return text(p.body, p.doc, i) }
func (p *patcher) raw(i int32) []byte  { return raw(p.body, p.doc, i) }

// replace puts text in the place of a field's value. text must outlive the request.
func (p *patcher) replace(i int32, text []byte) {
	f := &p.doc.Fields[i]
	p.patches = append(p.patches, proxy.Patch{From: int(f.From), To: int(f.To), With: text})
}

// write gives room for a text that outlives the request, of which build appends all.
func (p *patcher) write(build func(dst []byte) []byte) []byte {
	from := len(p.s.Buf)
	p.s.Buf = build(p.s.Buf)
	return p.s.Buf[from:]
}

// cut takes a top member out, if it is there.
func (p *patcher) cut(id int) {
	if i := p.doc.TopIndex(id); i >= 0 {
		p.s.Picks = append(p.s.Picks, i)
	}
}

// add puts a member, with its comma, in front of the body's members.
func (p *patcher) add(member []byte) {
	p.patches = append(p.patches, proxy.Patch{From: p.doc.Open, To: p.doc.Open, With: member})
}

// top writes the model's name, cuts what is not sent and keeps the answer from being
// stored in the operator's account.
func (p *patcher) top(t *dialect.Target) {
	if i := p.doc.TopIndex(TopModel); i >= 0 && !bytes.Equal(p.doc.Fields[i].Raw(p.body), t.Quoted) {
		p.replace(i, t.Quoted)
	}
	for _, id := range cutHere {
		p.cut(id)
	}
	if p.c.NoReasoning {
		p.cut(TopReasoning)
	}
	if len(p.doc.Fields) > 0 {
		// The top Shape is that of any top member; there is one, since model is required.
		shape := p.doc.Fields[0].Shape
		for id := TopBrand; id < shape.Len() && shape.Child(id) != nil; id++ {
			p.cut(id)
		}
		for _, name := range t.Upstream.Config.Drop {
			if id := shape.ID(name); id >= 0 && !slices.Contains(keptHere, id) {
				p.cut(id)
			}
		}
	}
	if i := p.doc.TopIndex(TopStore); i < 0 {
		p.add(storeFalse)
	} else if p.doc.Fields[i].Kind != scan.False {
		p.replace(i, falseText)
	}
}

// limits sends the cap on output tokens.
func (p *patcher) limits() {
	most := p.c.MaxCompletion
	if most == 0 {
		return
	}
	i := p.doc.TopIndex(TopMaxOutputTokens)
	switch {
	case i < 0:
		p.add(p.write(func(dst []byte) []byte {
			return append(strconv.AppendInt(append(dst, `"max_output_tokens":`...), most, 10), ',')
		}))
	case most != p.c.AskedCompletion || p.doc.Fields[i].Kind != scan.Number:
		p.replace(i, p.write(func(dst []byte) []byte { return strconv.AppendInt(dst, most, 10) }))
	}
}

// instructions puts the operator's words before the client's.
func (p *patcher) instructions() {
	if len(p.c.SystemPrompt) == 0 {
		return
	}
	i := p.doc.TopIndex(TopInstructions)
	own := p.text(i)
	words := p.write(func(dst []byte) []byte {
		if i < 0 {
			dst = append(dst, `"instructions":`...)
		}
		dst = dialect.AppendEscaped(append(dst, '"'), p.c.SystemPrompt)
		if len(own) > 0 {
			dst = append(append(dst, `\n\n`...), own...)
		}
		if dst = append(dst, '"'); i < 0 {
			dst = append(dst, ',')
		}
		return dst
	})
	if i < 0 {
		p.add(words)
	} else {
		p.replace(i, words)
	}
}

// tools writes functions in this form's own spelling. Tools that the upstream would
// carry out at the operator's cost have no price and are not sent.
func (p *patcher) tools() {
	list := p.doc.TopIndex(TopTools)
	end := int32(0)
	if list >= 0 && p.doc.Fields[list].Kind == scan.Array {
		end = p.doc.Fields[list].Next
	}
	for i := list + 1; i < end; i = p.doc.Fields[i].Next {
		kind := p.text(p.doc.Member(i, ToolType))
		if string(kind) != "function" && string(kind) != "custom" {
			at := p.doc.Path(i) + ".type"
			p.no = &dialect.Unsupported{Path: at, Text: at + ": tools of type " + excerpt(kind) + " are not offered here."}
			return
		}
		if inner := p.doc.Member(i, ToolFunction); inner >= 0 && p.doc.Fields[inner].Kind == scan.Object {
			p.flat(i, inner)
		}
	}
	choice := p.doc.TopIndex(TopToolChoice)
	if choice < 0 || p.doc.Fields[choice].Kind != scan.Object {
		return
	}
	if inner := p.doc.Member(choice, ChoiceFunction); inner >= 0 && p.doc.Fields[inner].Kind == scan.Object {
		p.flat(choice, inner)
	}
}

// flat writes the members of a function's object beside its type.
func (p *patcher) flat(i, inner int32) {
	function := p.doc.Fields[inner].Raw(p.body)
	p.replace(i, p.write(func(dst []byte) []byte {
		dst = append(dst, `{"type":"function"`...)
		if rest := function[dialect.SkipSpace(function, 1):]; rest[0] != '}' {
			dst = append(append(dst, ','), rest...)
			return dst
		}
		return append(dst, '}')
	}))
}

// input writes items and parts in this form's own spelling, and takes out thoughts that
// another maker's model had: this upstream could not read them.
func (p *patcher) input() {
	list := p.doc.TopIndex(TopInput)
	if list < 0 || p.doc.Fields[list].Kind != scan.Array {
		return
	}
	for i := list + 1; i < p.doc.Fields[list].Next; i = p.doc.Fields[i].Next {
		if p.doc.Fields[i].Kind != scan.Object {
			continue
		}
		if bytes.HasPrefix(p.text(p.doc.Member(i, ItemEncryptedContent)), []byte(sealHead)) {
			p.without(list, i)
			continue
		}
		p.summary(p.doc.Member(i, ItemSummary))
		p.result(p.doc.Member(i, ItemOutput))
		content := p.doc.Member(i, ItemContent)
		assistant := string(p.text(p.doc.Member(i, ItemRole))) == "assistant"
		if content < 0 || p.doc.Fields[content].Kind != scan.Array {
			continue
		}
		for at := content + 1; at < p.doc.Fields[content].Next; at = p.doc.Fields[at].Next {
			if p.doc.Fields[at].Kind == scan.Object {
				p.part(at, assistant)
			}
		}
	}
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
	if len(list) == 0 || list[0] != '[' || bytes.IndexByte(list, '"') < 0 {
		return
	}
	if from, _, ok := dialect.NextElement(list, 1); !ok || list[from] != '"' {
		return
	}
	p.replace(i, p.write(func(dst []byte) []byte {
		dst = append(dst, '[')
		for at, n := 1, 0; ; n++ {
			from, to, ok := dialect.NextElement(list, at)
			if !ok {
				return append(dst, ']')
			}
			if at = to; n > 0 {
				dst = append(dst, ',')
			}
			if list[from] != '"' {
				dst = append(dst, list[from:to]...)
				continue
			}
			dst = append(append(dst, `{"type":"summary_text","text":`...), list[from:to]...)
			dst = append(dst, '}')
		}
	}))
}

// result writes the result of a call that is no text as the text of its JSON.
func (p *patcher) result(i int32) {
	if i < 0 {
		return
	}
	value := p.doc.Fields[i].Raw(p.body)
	if value[0] == '"' || value[0] == '[' && arePartsOf(value) {
		return
	}
	p.replace(i, p.write(func(dst []byte) []byte { return dialect.AppendString(dst, value) }))
}

// part writes a part that has the spelling of chat completions.
func (p *patcher) part(i int32, assistant bool) {
	kind := p.doc.Member(i, PartType)
	switch string(p.text(kind)) {
	case "text", "input_text", "output_text":
		want := "input_text"
		if assistant {
			want = "output_text"
		}
		if string(p.text(kind)) != want {
			p.replace(kind, p.write(func(dst []byte) []byte { return dialect.AppendString(dst, want) }))
		}
	case "image_url", "input_image":
		at := p.doc.Member(i, PartImageURL)
		if string(p.text(kind)) == "input_image" && (at < 0 || p.doc.Fields[at].Kind != scan.Object) {
			return
		}
		link, detail := p.raw(at), p.raw(p.doc.Member(i, PartDetail))
		if at >= 0 && p.doc.Fields[at].Kind == scan.Object {
			link, detail = p.raw(p.doc.Member(at, ImageURL)), memberOf(p.raw(at), "detail")
		}
		p.replace(i, p.write(func(dst []byte) []byte {
			dst = append(append(dst, `{"type":"input_image","image_url":`...), orNull(link)...)
			if detail != nil {
				dst = append(append(dst, `,"detail":`...), detail...)
			}
			return append(dst, '}')
		}))
	case "file":
		at := p.doc.Member(i, PartFile)
		if at < 0 {
			p.replace(kind, []byte(`"input_file"`))
			return
		}
		data, name := p.raw(p.doc.Member(at, FileData)), p.raw(p.doc.Member(at, FileName))
		member := `"file_data":`
		if len(data) > 0 && !bytes.HasPrefix(data, []byte(`"data:`)) {
			member = `"file_url":`
		}
		p.replace(i, p.write(func(dst []byte) []byte {
			dst = append(append(append(dst, `{"type":"input_file",`...), member...), orNull(data)...)
			if name != nil {
				dst = append(append(dst, `,"filename":`...), name...)
			}
			return append(dst, '}')
		}))
	}
}

// finish adds the cuts and sorts.
func (p *patcher) finish() []proxy.Patch {
	if len(p.s.Picks) > 0 {
		slices.Sort(p.s.Picks)
		p.s.Picks = slices.Compact(p.s.Picks)
		p.s.Cuts = p.doc.AppendCuts(p.s.Cuts[:0], p.body, p.s.Picks...)
		for _, cut := range p.s.Cuts {
			p.patches = append(p.patches, proxy.Patch{From: cut.From, To: cut.To})
		}
		// A member that is cut needs no other change.
		p.patches = slices.DeleteFunc(p.patches, func(x proxy.Patch) bool {
			return x.To > x.From && slices.ContainsFunc(p.s.Cuts, func(cut scan.Span) bool {
				return cut.From <= x.From && x.To <= cut.To && (cut.From != x.From || cut.To != x.To)
			})
		})
	}
	slices.SortStableFunc(p.patches, func(a, b proxy.Patch) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	return p.patches
}
