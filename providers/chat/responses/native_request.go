package responses

import (
	"bytes"
	"slices"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var (
	path       = []byte("/responses")
	falseText  = []byte("false")
	storeFalse = []byte(`"store":false,`)
)

// cutHere are the members that no upstream is sent: those that would reach into the
// operator's account, in which all customers are one, those that would have more done
// than is paid for, those that are ours or of other forms, and those that are without
// effect here (addendum 6.1). Members that are not known here are not sent either.
var cutHere = []int{
	TopPreviousResponseID, TopConversation, TopBackground, TopUser, TopFallbacks, TopAnonUserID, TopWebSearch, TopN,
	TopStop, TopSeed, TopContextManagement, TopPrompt, TopMessages, TopMaxTokens, TopMaxCompletionTokens,
	TopResponseFormat, TopFunctions, TopFunctionCall, TopLogprobs, TopVerbosity, TopReasoningEffort, TopClientMetadata,
}

// keptHere are the members that hold our promise to an upstream's operator: the limit
// of the output, and that nothing is kept. A list of members not to be sent is one
// for chat completions, which may not have max_output_tokens besides their own cap;
// here it is the cap.
var keptHere = []int{TopModel, TopInput, TopStream, TopMaxOutputTokens, TopStore, TopTools}

// Request is dialect.Dialect: it names the necessary changes of the client's own body.
func (Native) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	r.Path, r.Body, r.Accept = path, c.Told, c.Accept()
	s.Buf, s.Cuts, s.Picks = s.Buf[:0], s.Cuts[:0], s.Picks[:0]
	p := patcher{c: c, body: c.Told, doc: c.ToldDoc, s: s, patches: r.Patches[:0], unseen: c.Unseen}
	p.top(t)
	p.limits()
	p.instructions()
	p.tools()
	p.input()
	r.Patches = p.finish()
	return p.err
}

// patcher collects the patches of one request in any order.
type patcher struct {
	c       *dialect.Chat
	body    []byte
	doc     *scan.Document
	s       *dialect.Scratch
	patches []proxy.Patch
	gone    []scan.Span // members of one object that are cut
	unseen  int         // pictures in results that are still to be left out
	err     error
}

func (p *patcher) text(i int32) []byte { return p.doc.StringAt(p.body, i) }
func (p *patcher) raw(i int32) []byte  { return p.doc.RawAt(p.body, i) }

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

// top writes the model's name, cuts members that are not sent and keeps the answer from being
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
		for id := TopBrand; id < shape.Len(); id++ {
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
		dst = jsontext.AppendEscaped(append(dst, '"'), p.c.SystemPrompt)
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

// finish adds the cuts and sorts.
func (p *patcher) finish() []proxy.Patch {
	slices.Sort(p.s.Picks)
	p.s.Picks = slices.Compact(p.s.Picks)
	if int(p.doc.Named(-1)) == p.doc.Members {
		p.s.Cuts = p.doc.AppendCuts(p.s.Cuts, p.body, p.s.Picks...)
	} else {
		shape := p.doc.Fields[0].Shape
		p.cutOthers(p.doc.Open, func(name []byte) bool {
			id := shape.ID(string(name))
			return id >= 0 && !slices.Contains(p.s.Picks, p.doc.TopIndex(id))
		})
	}
	for _, cut := range p.s.Cuts {
		p.patches = append(p.patches, proxy.Patch{From: cut.From, To: cut.To})
	}
	slices.SortStableFunc(p.patches, func(a, b proxy.Patch) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	// A cut member needs no other change.
	kept := p.patches[:0]
	for _, next := range p.patches {
		if n := len(kept); n == 0 || next.From >= kept[n-1].To {
			kept = append(kept, next)
		}
	}
	return kept
}

// cutOthers cuts the members of the object that begins behind from, but for those that are kept.
func (p *patcher) cutOthers(from int, kept func(name []byte) bool) {
	p.gone = p.gone[:0]
	for m := range jsontext.Members(p.body, from) {
		if !kept(m.Key) {
			key := cap(p.body) - cap(m.Key) - 1 // it is a piece of the body, behind its quote
			p.gone = append(p.gone, scan.Span{From: key, To: m.To})
		}
	}
	p.s.Cuts = scan.AppendCuts(p.s.Cuts, p.body, p.gone...)
}
