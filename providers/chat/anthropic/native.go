package anthropic

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Native gives an upstream the bodies of Messages as clients wrote them, and clients
// its answers as they come. The gateway changes the parts that it is responsible for: the model's name, the
// cap, a way to think that the model does not know, the operator's prompt, the operator's drops, lifetimes in
// the cache that the price is not for, and thoughts that are not Anthropic's own.
type Native struct{}

var _ dialect.Dialect = Native{}

// betaHeader names features that are being tried.
const betaHeader = "anthropic-beta"

// Request patches the client's own body.
func (Native) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	fillRequest(r, c, t, s)
	r.Accept = c.Accept()
	return nil
}

// fillRequest fills r with the client's own body.
func fillRequest(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) {
	r.Path, r.Body, r.Accept = messagesPath, c.Told, "application/json"
	if f, ok := c.Form.(*messages.Form); ok {
		allowed, stripped := f.Beta()
		if allowed != "" {
			r.Further = proxy.Fields{{betaHeader, allowed}}
		}
		if stripped {
			c.LeftOut.Add(betaHeader)
		}
	}
	s.Buf, s.Cuts, s.Picks = s.Buf[:0], s.Cuts[:0], s.Picks[:0]
	p := patcher{c: c, doc: c.ToldDoc, s: s, patches: r.Patches[:0]}
	p.model(t)
	p.think(t)
	p.cap()
	p.searches()
	p.drop(t)
	p.system()
	p.lifetimes()
	p.foreign()
	p.hide()
	r.Patches = p.finish()
}

// patcher collects the patches of one body in any order.
type patcher struct {
	c       *dialect.Chat
	doc     *scan.Document
	s       *dialect.Scratch
	patches []proxy.Patch
}

func (p *patcher) replace(i int32, with []byte) {
	f := &p.doc.Fields[i]
	p.patches = append(p.patches, proxy.Patch{From: int(f.From), To: int(f.To), With: with})
}

func (p *patcher) insert(at int, with []byte) {
	p.patches = append(p.patches, proxy.Patch{From: at, To: at, With: with})
}

func (p *patcher) cut(from, to int) { p.patches = append(p.patches, proxy.Patch{From: from, To: to}) }

// text is the raw content of a string member; nil if absent.
func (p *patcher) text(parent int32, id int) []byte {
	if parent < 0 {
		return nil
	}
	return p.doc.StringAt(p.c.Told, p.doc.Member(parent, id))
}

func (p *patcher) model(t *dialect.Target) {
	if i := p.doc.TopIndex(messages.TopModel); i >= 0 && !bytes.Equal(p.doc.Fields[i].Raw(p.c.Told), t.Quoted) {
		p.replace(i, t.Quoted)
	}
}

// cap lowers max_tokens to the tokens that the account can pay.
func (p *patcher) cap() {
	i := p.doc.TopIndex(messages.TopMaxTokens)
	if i < 0 || p.c.MaxCompletion == 0 || p.c.MaxCompletion == p.c.AskedCompletion {
		return
	}
	p.replace(i, strconv.AppendInt(nil, p.c.MaxCompletion, 10))
	// A budget for thinking must stay below it.
	thinking := p.doc.TopIndex(messages.TopThinking)
	if thinking < 0 || p.doc.Fields[thinking].Kind != scan.Object {
		return
	}
	b := p.doc.Member(thinking, messages.ThinkingBudget)
	if b < 0 {
		return
	}
	budget, err := strconv.ParseFloat(string(p.doc.Fields[b].Raw(p.c.Told)), 64)
	switch {
	case err != nil || budget < float64(p.c.MaxCompletion):
	case p.c.MaxCompletion > leastBudget:
		p.c.LeftOut.Add("thinking.budget_tokens")
		p.replace(b, strconv.AppendInt(nil, max(leastBudget, p.c.MaxCompletion*8/10), 10))
	default:
		p.c.LeftOut.Add("thinking")
		p.replace(thinking, []byte(`{"type":"disabled"}`))
	}
}

// drop cuts the members that the operator does not send to this upstream.
func (p *patcher) drop(t *dialect.Target) {
	for _, name := range t.Upstream.Config.Drop {
		if name == "stop" {
			name = "stop_sequences"
		}
		id := messages.Shape.ID(name)
		if id < 0 || id <= messages.TopStream {
			continue // members that the gateway itself reads
		}
		if i := p.doc.TopIndex(id); i >= 0 {
			p.s.Picks = append(p.s.Picks, i)
		}
	}
	if len(p.s.Picks) == 0 {
		return
	}
	slices.Sort(p.s.Picks)
	p.s.Picks = slices.Compact(p.s.Picks)
	p.s.Cuts = p.doc.AppendCuts(p.s.Cuts[:0], p.c.Told, p.s.Picks...)
	for _, c := range p.s.Cuts {
		p.cut(c.From, c.To)
	}
}

// system puts the operator's prompt before the client's.
func (p *patcher) system() {
	if len(p.c.SystemPrompt) == 0 {
		return
	}
	prompt := jsontext.AppendString([]byte(`{"type":"text","text":`), p.c.SystemPrompt)
	prompt = append(prompt, '}')
	i := p.doc.TopIndex(messages.TopSystem)
	if i < 0 {
		p.insert(p.doc.Open, append(append([]byte(`"system":[`), prompt...), "],"...))
		return
	}
	switch f := &p.doc.Fields[i]; {
	case f.Kind == scan.Array && f.Len > 0:
		p.insert(int(f.From)+1, append(prompt, ','))
	case f.Kind == scan.String && f.To-f.From > 2:
		p.insert(int(f.From), append(append([]byte{'['}, prompt...), `,{"type":"text","text":`...))
		p.insert(int(f.To), []byte("}]"))
	default:
		p.replace(i, append(append([]byte{'['}, prompt...), ']'))
	}
}

var usualLife = []byte(`"5m"`)

// lifetimes makes prompts stay in the cache for the usual time: an hour costs the
// operator more to write, which the model's price is not for.
func (p *patcher) lifetimes() {
	for i := range p.doc.Fields {
		f := &p.doc.Fields[i]
		if f.Name == messages.CacheTTL && messages.IsCache(f.Shape) && f.Elem < 0 && f.Kind == scan.String &&
			!bytes.Equal(f.Raw(p.c.Told), usualLife) {
			p.replace(int32(i), usualLife)
		}
	}
}

// foreign cuts thoughts that Anthropic's models did not think, which other targets of
// the model answered with, and the searches that this service did.
func (p *patcher) foreign() {
	list := p.doc.TopIndex(messages.TopMessages)
	if list < 0 {
		return
	}
	fields := p.doc.Fields
	for m := list + 1; m < fields[list].Next; m = fields[m].Next {
		content := p.doc.Member(m, messages.MessageContent)
		if content < 0 || fields[content].Kind != scan.Array || string(p.text(m, messages.MessageRole)) != "assistant" {
			continue
		}
		if p.without(content, p.isForeign) {
			p.patches = append(p.patches, proxy.Patch{From: int(fields[content].From) + 1, To: int(fields[content].To) - 1,
				With: []byte(`{"type":"text","text":"."}`)})
		}
	}
}

// searches cuts the tool for searching: the provider would search at the operator's cost.
// Requests that this service searches for are not sent in their own form.
func (p *patcher) searches() {
	list := p.doc.TopIndex(messages.TopTools)
	if list < 0 || p.doc.Fields[list].Kind != scan.Array {
		return
	}
	if p.without(list, func(t int32) bool {
		is := messages.IsSearch(p.text(t, messages.ToolType))
		if is {
			p.c.LeftOut.Add(messages.LeftOutSearch)
		}
		return is
	}) {
		for _, id := range []int{messages.TopTools, messages.TopToolChoice} {
			if i := p.doc.TopIndex(id); i >= 0 {
				p.s.Picks = append(p.s.Picks, i)
			}
		}
	}
}

// without cuts elements of a list. It changes nothing where all of them would go, and says
// so.
func (p *patcher) without(list int32, goes func(i int32) bool) (all bool) {
	fields := p.doc.Fields
	kept, gone := int32(-1), int32(-1) // the last element that stays, and that goes
	from := -1                         // where the run of elements begins that goes
	for b := list + 1; b < fields[list].Next; b = fields[b].Next {
		switch {
		case goes(b):
			if from < 0 && kept >= 0 {
				from = int(fields[kept].To) // with the comma before them
			} else if from < 0 {
				from = int(fields[b].From)
			}
			gone = b
			continue
		case from < 0:
		case kept < 0:
			p.cut(from, int(fields[b].From)) // with the comma behind them
		default:
			p.cut(from, int(fields[gone].To))
		}
		kept, from = b, -1
	}
	if from >= 0 && kept >= 0 {
		p.cut(from, int(fields[gone].To))
	}
	return from >= 0 && kept < 0
}

// hide takes the oldest pictures out of results of tools, as many as the model is not shown.
func (p *patcher) hide() {
	fields, n := p.doc.Fields, p.c.Unseen
	each := func(list int32, do func(i int32)) {
		if list < 0 || fields[list].Kind != scan.Array {
			return
		}
		for i := list + 1; i < fields[list].Next && n > 0; i = fields[i].Next {
			do(i)
		}
	}
	each(p.doc.TopIndex(messages.TopMessages), func(m int32) {
		each(p.doc.Member(m, messages.MessageContent), func(b int32) {
			if string(p.text(b, messages.BlockType)) != "tool_result" {
				return
			}
			each(p.doc.Member(b, messages.BlockContent), func(part int32) {
				if string(p.text(part, messages.BlockType)) == "image" {
					n--
					p.replace(part, []byte(`{"type":"text","text":"`+dialect.NotShown+`"}`))
				}
			})
		})
	})
}

func (p *patcher) isForeign(b int32) bool {
	switch string(p.text(b, messages.BlockType)) {
	case "thinking":
		signature := p.text(b, messages.BlockSignature)
		return len(signature) == 0 || bytes.HasPrefix(signature, []byte(messages.Seal))
	case "redacted_thinking":
		return bytes.HasPrefix(p.text(b, messages.BlockData), []byte(messages.Seal))
	case "server_tool_use":
		return bytes.HasPrefix(p.text(b, messages.BlockID), []byte(messages.SearchID))
	case "web_search_tool_result":
		return bytes.HasPrefix(p.text(b, messages.BlockCall), []byte(messages.SearchID))
	}
	return false
}

// finish sorts the patches. Those at the same place stay in the order they were made
// in.
func (p *patcher) finish() []proxy.Patch {
	slices.SortStableFunc(p.patches, func(a, b proxy.Patch) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	// A part of a removed range need not be changed.
	kept := p.patches[:0]
	for _, next := range p.patches {
		if n := len(kept); n > 0 && next.From < kept[n-1].To {
			continue
		}
		kept = append(kept, next)
	}
	return kept
}

// Answer meters the message and gives it on, with the client's name of the model.
func (Native) Answer(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	m := streams.Get().(*stream)
	defer m.Release()
	m.OpenSilent(c, m)
	if err := m.message(body); err != nil {
		return nil, dialect.Usage{}, err
	}
	u := m.Settled(true)
	if i := m.doc.TopIndex(messageModel); i >= 0 && t.Renames {
		f := &m.doc.Fields[i]
		s.Out = append(append(append(s.Out[:0], body[:f.From]...), t.QuotedID...), body[f.To:]...)
		return s.Out, u, nil
	}
	return body, u, nil
}

// Error is the dialect's.
func (Native) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return Dialect{}.Error(status, retryAfter, body)
}

// Translates is true: answers are read as a whole, to be metered.
func (Native) Translates() bool { return true }
