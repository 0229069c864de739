package openai

import (
	"bytes"
	"slices"
	"strconv"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

var (
	chatPath  = []byte("/chat/completions")
	embedPath = []byte("/embeddings")

	trueText      = []byte("true")
	usageMember   = []byte(`"include_usage":true`)
	usageComma    = []byte(`"include_usage":true,`)
	usageObject   = []byte(`{"include_usage":true}`)
	streamOptions = []byte(`"stream_options":{"include_usage":true},`)
	systemRole    = []byte(`"system"`)
	maxTokensKey  = []byte(`"max_tokens"`)
	maxComplKey   = []byte(`"max_completion_tokens"`)
	developer     = []byte("developer")
)

// Request names the necessary changes of the body: the model's name, members that
// are ours or that this upstream does not know, the cap on tokens, and that a
// stream reports its usage. All else goes out byte for byte.
func (Dialect) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	r.Path, r.Body, r.Accept = chatPath, c.Body, c.Accept()
	p := patcher{c: c, s: s, quirks: &t.Upstream.Config.Quirks, patches: r.Patches[:0]}
	s.Buf, s.Cuts, s.Picks = s.Buf[:0], s.Cuts[:0], s.Picks[:0]
	p.model(t)
	p.cut(dialect.TopUser)
	if c.Embedding {
		r.Path = embedPath
	} else {
		p.brands()
		p.drop(t)
		// Routing hints of other gateways: forwarded, they would let a client
		// name a dearer model than the one it pays for (addendum 5.1).
		p.cut(dialect.ChatFallbacks)
		p.cut(dialect.ChatAnonUserID)
		p.usage()
		p.completion()
		if !c.Verbatim {
			p.reasoning()
		}
		p.messages()
		p.results()
	}
	r.Patches = p.finish()
	return nil
}

// patcher collects the patches of one request in any order.
type patcher struct {
	c       *dialect.Chat
	s       *dialect.Scratch
	quirks  *config.Quirks
	patches []proxy.Patch
}

// replace puts text in the place of a field's value. text must outlive the request.
func (p *patcher) replace(i int32, text []byte) {
	f := &p.c.Doc.Fields[i]
	p.patches = append(p.patches, proxy.Patch{From: int(f.From), To: int(f.To), With: text})
}

// cut takes a top member out, if it is there.
func (p *patcher) cut(id int) {
	if i := p.c.Doc.TopIndex(id); i >= 0 {
		p.s.Picks = append(p.s.Picks, i)
	}
}

// model puts this upstream's name of the model where the client's differs: by
// an alias, a trait, a suffix, or because the upstream calls it otherwise.
func (p *patcher) model(t *dialect.Target) {
	i := p.c.Doc.TopIndex(dialect.TopModel)
	if i >= 0 && !bytes.Equal(p.c.Doc.Fields[i].Raw(p.c.Body), t.Quoted) {
		p.replace(i, t.Quoted)
	}
}

// brands cuts our own parameter objects.
func (p *patcher) brands() {
	// The top Shape is that of any top member; there is one, since model is required.
	if len(p.c.Doc.Fields) == 0 {
		return
	}
	// Behind them are the members of drop lists, which have no members of their own.
	top := p.c.Doc.Fields[0].Shape
	for id := dialect.ChatBrand; id < top.Len() && top.Child(id) != nil; id++ {
		p.cut(id)
	}
}

// drop cuts the members that the operator does not send to this upstream.
func (p *patcher) drop(t *dialect.Target) {
	for _, id := range t.Upstream.Drops {
		if p.c.Doc.TopIndex(id) >= 0 {
			p.c.LeftOut.Add(dialect.Omission(p.c.Doc.Fields[0].Shape.Name(id)))
			p.cut(id)
		}
	}
	if t.Upstream.CutsTTL {
		p.lifetimes()
	}
}

// lifetimes cuts how long prompts are to stay in the upstream's cache.
func (p *patcher) lifetimes() {
	fields := p.c.Doc.Fields
	for i := range fields {
		if fields[i].Name == dialect.CacheTTL && dialect.IsCacheControl(fields[i].Shape) &&
			!slices.Contains(p.s.Picks, fields[i].Parent) {
			p.s.Cuts = p.c.Doc.AppendCuts(p.s.Cuts[:0], p.c.Body, int32(i))
			for _, cut := range p.s.Cuts {
				p.patches = append(p.patches, proxy.Patch{From: cut.From, To: cut.To})
			}
		}
	}
}

// usage makes a stream report its usage, which many servers do only when asked.
func (p *patcher) usage() {
	i := p.c.Doc.TopIndex(dialect.ChatStreamOptions)
	switch {
	case p.quirks.NoStreamOptions:
		p.cut(dialect.ChatStreamOptions)
	case !p.c.Stream:
	case i < 0:
		p.add(streamOptions)
	case p.c.Doc.Fields[i].Kind != scan.Object:
		p.replace(i, usageObject)
	default:
		if at := p.c.Doc.Member(i, dialect.StreamIncludeUsage); at >= 0 {
			if !p.c.True(at) {
				p.replace(at, trueText)
			}
			return
		}
		f := &p.c.Doc.Fields[i]
		with := usageComma
		if f.Len == 0 {
			with = usageMember
		}
		p.patches = append(p.patches, proxy.Patch{From: int(f.From) + 1, To: int(f.From) + 1, With: with})
	}
}

// add puts a member, with its comma, in front of the body's members.
func (p *patcher) add(member []byte) {
	p.patches = append(p.patches, proxy.Patch{From: p.c.Doc.Open, To: p.c.Doc.Open, With: member})
}

// completion sends the cap on completion tokens under the name this upstream
// knows, whichever of the two the client used.
func (p *patcher) completion() {
	doc := p.c.Doc
	own, other := doc.TopIndex(dialect.ChatMaxCompletionTokens), doc.TopIndex(dialect.ChatMaxTokens)
	if own < 0 && other < 0 && p.c.MaxCompletion == 0 {
		return
	}
	key := maxComplKey
	if p.quirks.MaxTokens {
		key = maxTokensKey
	}
	if own >= 0 && doc.Fields[own].Kind == scan.Null && p.c.MaxCompletion > 0 && other >= 0 {
		p.s.Picks = append(p.s.Picks, own)
		own = -1
	}
	if own >= 0 {
		// max_completion_tokens wins over max_tokens.
		if other >= 0 {
			p.s.Picks = append(p.s.Picks, other)
		}
		p.rename(own, maxComplKey, key)
		if p.c.MaxCompletion > 0 && (p.c.MaxCompletion != p.c.AskedCompletion || doc.Fields[own].Kind != scan.Number) {
			p.replace(own, p.number(p.c.MaxCompletion))
		}
		return
	}
	switch {
	case p.c.MaxCompletion == 0:
		p.s.Picks = append(p.s.Picks, other) // a value that asks for nothing
	case other < 0:
		from := len(p.s.Buf)
		p.s.Buf = append(append(p.s.Buf, key...), ':')
		p.s.Buf = strconv.AppendInt(p.s.Buf, p.c.MaxCompletion, 10)
		p.s.Buf = append(p.s.Buf, ',')
		p.add(p.s.Buf[from:])
	default:
		p.rename(other, maxTokensKey, key)
		if p.c.MaxCompletion != p.c.AskedCompletion {
			p.replace(other, p.number(p.c.MaxCompletion))
		}
	}
}

// rename writes another key over a member's own.
func (p *patcher) rename(i int32, from, to []byte) {
	if !bytes.Equal(from, to) {
		at := int(p.c.Doc.Fields[i].KeyFrom)
		p.patches = append(p.patches, proxy.Patch{From: at, To: at + len(from), With: to})
	}
}

func (p *patcher) number(n int64) []byte {
	from := len(p.s.Buf)
	p.s.Buf = strconv.AppendInt(p.s.Buf, n, 10)
	return p.s.Buf[from:]
}

// reasoning sends the effort as reasoning_effort, the form that chat
// completions know. A reasoning object that says no more than that goes.
func (p *patcher) reasoning() {
	doc := p.c.Doc
	own, object := doc.TopIndex(dialect.ChatReasoningEffort), doc.TopIndex(dialect.ChatReasoning)
	inner := int32(-1)
	if object >= 0 {
		inner = doc.Member(object, dialect.ReasoningEffort)
	}
	if p.c.NoReasoning {
		p.cut(dialect.ChatReasoningEffort)
		p.cut(dialect.ChatReasoning)
		return
	}
	effort := p.c.Effort()
	if effort == nil || p.c.ReasoningEffort == nil && inner < 0 && !p.quirks.NoReasoningEffort {
		return
	}
	if inner >= 0 {
		p.dropEffort(object, inner)
	}
	switch {
	case p.quirks.NoReasoningEffort:
		p.cut(dialect.ChatReasoningEffort)
	case own < 0 || p.c.Text(own) == nil:
		if own >= 0 {
			p.s.Picks = append(p.s.Picks, own)
		}
		from := len(p.s.Buf)
		p.s.Buf = append(p.s.Buf, `"reasoning_effort":"`...)
		p.s.Buf = append(append(p.s.Buf, effort...), `",`...)
		p.add(p.s.Buf[from:])
	case !bytes.Equal(p.c.Text(own), effort):
		from := len(p.s.Buf)
		p.s.Buf = append(append(append(p.s.Buf, '"'), effort...), '"')
		p.replace(own, p.s.Buf[from:])
	}
}

// dropEffort takes reasoning.effort out, with the whole object when nothing
// but the summary, which chat completions do not have, is beside it.
func (p *patcher) dropEffort(object, inner int32) {
	doc := p.c.Doc
	rest := doc.Fields[object].Len - 1
	if doc.Member(object, dialect.ReasoningSummary) >= 0 {
		rest--
	}
	if rest == 0 {
		p.s.Picks = append(p.s.Picks, object)
		return
	}
	p.s.Cuts = doc.AppendCuts(p.s.Cuts[:0], p.c.Body, inner)
	for _, cut := range p.s.Cuts {
		p.patches = append(p.patches, proxy.Patch{From: cut.From, To: cut.To})
	}
}

// messages puts the operator's system prompt in front and, for servers that do
// not know it, writes the developer role as system.
func (p *patcher) messages() {
	if len(p.c.SystemPrompt) == 0 && !p.quirks.NoDeveloperRole {
		return
	}
	doc := p.c.Doc
	messages := doc.TopIndex(dialect.ChatMessages)
	if messages < 0 || doc.Fields[messages].Kind != scan.Array {
		return
	}
	f := &doc.Fields[messages]
	if len(p.c.SystemPrompt) > 0 {
		with := p.systemMessage()
		if f.Len == 0 {
			with = with[:len(with)-1]
		}
		p.patches = append(p.patches, proxy.Patch{From: int(f.From) + 1, To: int(f.From) + 1, With: with})
	}
	if !p.quirks.NoDeveloperRole {
		return
	}
	for m := messages + 1; m < f.Next; m = doc.Fields[m].Next {
		if role := doc.Member(m, dialect.MessageRole); bytes.Equal(p.c.Text(role), developer) {
			p.replace(role, systemRole)
		}
	}
}

// systemMessage is the system prompt as a message with a comma; the operator's
// own was made when the catalog was.
func (p *patcher) systemMessage() []byte {
	if m := p.c.Model; m != nil && m.SystemPrompt == string(p.c.SystemPrompt) && len(m.SystemMessage) > 0 {
		return m.SystemMessage
	}
	from := len(p.s.Buf)
	p.s.Buf = dialect.AppendSystemMessage(p.s.Buf, p.c.SystemPrompt)
	return p.s.Buf[from:]
}

// finish adds the cuts and sorts. Patches at the same place stay in the order
// they were made in.
func (p *patcher) finish() []proxy.Patch {
	if len(p.s.Picks) > 0 {
		slices.Sort(p.s.Picks)
		p.s.Picks = slices.Compact(p.s.Picks)
		p.s.Cuts = p.c.Doc.AppendCuts(p.s.Cuts[:0], p.c.Body, p.s.Picks...)
		for _, cut := range p.s.Cuts {
			p.patches = append(p.patches, proxy.Patch{From: cut.From, To: cut.To})
		}
	}
	// A handful of them, nearly sorted.
	for i := 1; i < len(p.patches); i++ {
		for k := i; k > 0 && before(&p.patches[k], &p.patches[k-1]); k-- {
			p.patches[k], p.patches[k-1] = p.patches[k-1], p.patches[k]
		}
	}
	// A part of a replaced value need not be changed.
	kept := p.patches[:0]
	for _, next := range p.patches {
		if n := len(kept); n == 0 || next.From >= kept[n-1].To {
			kept = append(kept, next)
		}
	}
	return kept
}

// before orders an insertion in front of the change that begins at its place.
func before(a, b *proxy.Patch) bool {
	return a.From < b.From || a.From == b.From && a.To == a.From && b.To > b.From
}
