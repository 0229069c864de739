package openai

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// results moves the pictures and files in results of tools behind them, into a message of
// the user's: chat completions take only text in a tool's message. Clients of this form
// write none there.
func (p *patcher) results() {
	doc, list := p.c.Doc, p.c.Doc.TopIndex(dialect.ChatMessages)
	if p.c.Form == nil || list < 0 {
		return
	}
	var shown []int32 // messages since the last call
	end := doc.Fields[list].Next
	isTool := func(m int32) bool { return m < end && string(p.c.Text(doc.Member(m, dialect.MessageRole))) == "tool" }
	for m := list + 1; m < end; m = doc.Fields[m].Next {
		if !isTool(m) {
			continue
		}
		if p.result(m) {
			shown = append(shown, m)
		}
		if next := doc.Fields[m].Next; len(shown) > 0 && !isTool(next) {
			p.show(shown, m, next, end)
			shown = shown[:0]
		}
	}
}

// carried is the picture or the file of a content part; -1 if absent.
func (p *patcher) carried(part int32) int32 {
	if i := p.c.Doc.Member(part, dialect.PartImage); i >= 0 {
		return i
	}
	return p.c.Doc.Member(part, dialect.PartFile)
}

// result leaves the texts of a tool's message alone in it, and says whether it had more.
func (p *patcher) result(m int32) bool {
	doc, content := p.c.Doc, p.c.Doc.Member(m, dialect.MessageContent)
	if content < 0 || doc.Fields[content].Kind != scan.Array {
		return false
	}
	var texts []int32
	for part := content + 1; part < doc.Fields[content].Next; part = doc.Fields[part].Next {
		if p.carried(part) < 0 {
			texts = append(texts, doc.Member(part, dialect.PartText))
		}
	}
	switch from := len(p.s.Buf); {
	case len(texts) == int(doc.Fields[content].Len):
		return false
	case len(texts) == 0:
		p.replace(content, []byte(`"`+dialect.Beside+`"`))
	case len(texts) == 1:
		p.replace(content, p.c.Raw(texts[0]))
	default:
		p.s.Buf = append(p.s.Buf, '[')
		for i, text := range texts {
			if i > 0 {
				p.s.Buf = append(p.s.Buf, ',')
			}
			p.s.Buf = append(append(append(p.s.Buf, `{"type":"text","text":`...), p.c.Raw(text)...), '}')
		}
		p.s.Buf = append(p.s.Buf, ']')
		p.replace(content, p.s.Buf[from:])
	}
	return true
}

// show puts pictures and files of results into the next message if the user wrote it, else
// into a new message after the last result. A text before each names its call.
func (p *patcher) show(results []int32, last, next, end int32) {
	doc := p.c.Doc
	at, head, tail := int(doc.Fields[last].To), `,{"role":"user","content":[`, `]}`
	if next < end && string(p.c.Text(doc.Member(next, dialect.MessageRole))) == "user" {
		switch content := doc.Member(next, dialect.MessageContent); {
		case content < 0:
		case doc.Fields[content].Kind == scan.String:
			at, head, tail = int(doc.Fields[content].From), "[", `,{"type":"text","text":`
			p.insert(int(doc.Fields[content].To), []byte("}]"))
		case doc.Fields[content].Kind == scan.Array && doc.Fields[content].Len > 0:
			at, head, tail = int(doc.Fields[content].From)+1, "", ","
		}
	}
	p.insert(at, []byte(head))
	first := true
	for _, m := range results {
		content := doc.Member(m, dialect.MessageContent)
		for part := content + 1; part < doc.Fields[content].Next; part = doc.Fields[part].Next {
			i := p.carried(part)
			if i < 0 {
				continue
			}
			kind := p.c.Text(doc.Member(part, dialect.PartType))
			from := len(p.s.Buf)
			if !first {
				p.s.Buf = append(p.s.Buf, ',')
			}
			first = false
			what := "file"
			if string(kind) == "image_url" {
				what = "image"
			}
			p.s.Buf = append(append(append(p.s.Buf, `{"type":"text","text":"`...), what...), " in the result of the call "...)
			p.s.Buf = append(append(p.s.Buf, p.c.Text(doc.Member(m, dialect.MessageToolCallID))...), `:"},{"type":"`...)
			p.s.Buf = append(append(append(append(p.s.Buf, kind...), `","`...), kind...), `":`...)
			p.insert(at, p.s.Buf[from:])
			p.insert(at, p.c.Raw(i))
			p.insert(at, []byte("}"))
		}
	}
	p.insert(at, []byte(tail))
}

func (p *patcher) insert(at int, with []byte) {
	p.patches = append(p.patches, proxy.Patch{From: at, To: at, With: with})
}
