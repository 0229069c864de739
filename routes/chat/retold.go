package chat

import (
	"slices"
	"strings"

	"farebox/billing/journal"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Sell is routes.TextModels: it serves a chat completion that was asked for in another
// form. The body that was made of the client's own is the one that is checked, priced
// and sent; the client's own goes to upstreams that speak its form.
func (ca *Capability) Sell(call *routes.Call, r *routes.TranslatedChat) *routes.Error {
	c := ca.begin(call)
	c.missing = r.Missing
	c.chat.Form, c.chat.Told, c.chat.ToldDoc, c.chat.Brand = r.Form, call.Body, &call.Doc, call.Config().Brand
	if c.doc == nil {
		c.doc = new(scan.Document)
	}
	body := r.Body
	if len(r.Issues) > 0 {
		body = named(call)
	}
	c.chat.Body, c.chat.Doc, c.chat.Choices = body, c.doc, 1
	v := routes.Validator{Body: body, Doc: c.doc, Book: c.view.book, Issues: r.Issues}
	if err := c.doc.SkimStrict(body, v.Book.Root); err != nil {
		se := err.(*scan.Error)
		return routes.InvalidBody(r.Form.Path(se.Path), se.Error())
	}
	var use features
	if len(r.Issues) == 0 {
		v.CheckAll()
		use = checkMessages(&v, true)
		checkLists(&v)
	}
	e := c.serve(&v, &use)
	if e == nil || c.unsupported != nil && c.unsupported.Own {
		return e
	}
	return renamed(r.Form, len(r.Issues), e)
}

// named is a chat body with the model alone that the client's own names, for one that is refused.
func named(call *routes.Call) []byte {
	body := []byte(`{"messages":[]`)
	if i := call.Doc.TopIndex(call.Rules().Root.ID("model")); i >= 0 && call.Doc.Fields[i].Kind == scan.String {
		body = append(append(body, `,"model":`...), call.Doc.Fields[i].Raw(call.Body)...)
	}
	return append(body, '}')
}

// renamed gives an error's members the names that they have in the client's own body.
// Its first issues have them already.
func renamed(form dialect.Form, from int, e *routes.Error) *routes.Error {
	if e == nil {
		return nil
	}
	if e.Param != "" {
		e.Param = form.Path(e.Param)
	}
	for i := min(from, len(e.Issues)); i < len(e.Issues); i++ {
		issue := &e.Issues[i]
		path := form.Path(issue.Path)
		if path == issue.Path || issue.Path == "" {
			continue
		}
		text := issue.Message
		if rest, ok := strings.CutPrefix(text, issue.Path); ok {
			text = path + rest
		}
		if i == 0 && text != issue.Message {
			e.Message = strings.Replace(e.Message, issue.Message, text, 1)
		}
		issue.Path, issue.Message = path, text
	}
	return e
}

// nativeOf is the dialect that gives a target the client's own body; nil: the target does not
// speak the client's form, or needs additions that are not in that body.
func (c *inference) nativeOf(t *dialect.Target) dialect.Dialect {
	if c.chat.Form == nil || c.lookup != nil || c.parses || c.chat.DropThinking ||
		c.chat.ReasoningEffort != nil && !c.noEffort || c.unreasoned || c.schema != nil && !t.Upstream.Config.EnforcesSchema {
		return nil
	}
	d := t.Upstream.Natives[c.chat.Form.Kind()]
	if choosy, ok := d.(dialect.Choosy); ok && !choosy.Takes(&c.chat, t) {
		return nil
	}
	return d
}

// speaks is how a target is spoken to.
func (c *inference) speaks(t *dialect.Target) dialect.Dialect {
	if d := c.nativeOf(t); d != nil {
		return d
	}
	return t.Upstream.Dialect
}

// untold is the part of the request that a target without the client's form cannot get; nil:
// nothing.
func (c *inference) untold(t *dialect.Target) *dialect.Unsupported {
	if p, ok := c.chat.Form.(dialect.Partial); ok && c.nativeOf(t) == nil {
		return p.Untold()
	}
	return nil
}

// nothing is adapted of requests for chat completions.
var nothing dialect.Adapted

// adapts says what of the request is fitted to the model instead of refused.
func (c *inference) adapts() *dialect.Adapted {
	if c.chat.Form == nil {
		return &nothing
	}
	return c.chat.Form.Adapts()
}

// abridged lists the members of the client's own form that the chat body leaves out.
func (c *inference) abridged(t *dialect.Target) (left dialect.LeftOut) {
	if c.forgotten > 0 {
		left.Add("messages.content.image_url")
	}
	if c.chat.Form == nil {
		return left
	}
	translated := c.nativeOf(t) == nil
	if f, ok := c.chat.Form.(dialect.Abridged); ok && translated {
		for _, name := range f.LeftOut().All() {
			left.Add(name)
		}
	}
	names := c.adapts()
	for _, changed := range []struct {
		is   bool
		name dialect.Omission
	}{
		{c.clamped, names.Cap}, {c.otherEffort, names.Effort}, {c.unreasoned, names.Thinking},
		{c.noEffort && translated, names.Thinking},
		{c.chat.Unseen > 0, names.ToolImage},
	} {
		if changed.is {
			left.Add(changed.name)
		}
	}
	return left
}

// hide takes those pictures out of results of tools that the model cannot be shown: all of
// them where it sees none, else the oldest. Agents go on showing all that their tools saw.
func (c *inference) hide(v *routes.Validator, use *features) *routes.Error {
	room := 0
	if can := &c.call.Model.Chat.Capabilities; can.Vision {
		room = max(0, max(1, can.MaxImages)-(use.images-use.results))
	}
	n := use.results - room
	if n <= 0 {
		return nil
	}
	c.chat.Unseen, use.images, use.results = n, use.images-n, use.results-n
	var patches []proxy.Patch
	doc := c.chat.Doc
	messages := doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; m < doc.Fields[messages].Next && n > 0; m = doc.Fields[m].Next {
		content := doc.Member(m, dialect.MessageContent)
		if string(v.Text(m, dialect.MessageRole)) != "tool" || doc.Fields[content].Kind != scan.Array {
			continue
		}
		for p := content + 1; p < doc.Fields[content].Next && n > 0; p = doc.Fields[p].Next {
			if string(v.Text(p, dialect.PartType)) != "image_url" {
				continue
			}
			n--
			gone, with := &doc.Fields[p], `{"type":"text","text":"`+dialect.NotShown+`"}`
			if doc.Fields[content].Len == 1 {
				gone, with = &doc.Fields[content], `"`+dialect.NotShown+`"`
			}
			patches = append(patches, proxy.Patch{From: int(gone.From), To: int(gone.To), With: []byte(with)})
		}
	}
	e := c.rewrite(patches)
	v.Body = c.chat.Body
	return e
}

// sayTooLong gives the refusal of a prompt that is too long the words that clients of the
// form know.
func (c *inference) sayTooLong(e *routes.Error) {
	if form, ok := c.chat.Form.(dialect.Overflowing); ok && e.Code == "context_length_exceeded" {
		e.Message = form.TooLong(c.likely, c.call.Model.Chat.ContextTokens)
	}
}

// tellable refuses members that none of the model's targets can get, before anything is done for
// the request.
func (c *inference) tellable() *routes.Error {
	var refusal *dialect.Unsupported
	for _, t := range c.call.Model.Targets {
		if refusal = c.untold(t); refusal == nil {
			return nil
		}
	}
	if refusal == nil {
		return nil
	}
	c.unsupported = refusal
	return routes.Unsupported(refusal.Path, refusal.Text)
}

// beyond is how many more bytes the client's own body has than the one that was made of it, where
// it may go to an upstream: its unread parts may become tokens.
func (c *inference) beyond() int64 {
	more := int64(len(c.chat.Told) - len(c.chat.Body))
	if more <= 0 || !slices.ContainsFunc(c.call.Model.Targets,
		func(t *dialect.Target) bool { return c.nativeOf(t) != nil }) {
		return 0
	}
	return more
}

// readSaid reads a whole answer that came as a chat completion, for a client of another form.
func (c *inference) readSaid() *routes.Error {
	if c.chat.Said == nil || c.speaks(c.target).Translates() || c.said.Read(c.reply.out, c.chat.Brand) {
		return nil
	}
	c.call.Cause = proxy.UpstreamMalformed.String()
	return c.unusable(proxy.UpstreamMalformed)
}

// retell writes a whole answer in the client's form.
func (c *inference) retell(flags journal.Flags) *routes.Error {
	c.said.Add(&c.chat.Adds)
	if c.call.Config().Compat.AnswerExtras && c.said.Cost == nil {
		c.said.Cost = c.appendCostOf(nil, &c.reply.usage, flags)
	}
	out, err := c.chat.Form.Answer(&c.said, &c.chat)
	if err != nil {
		c.call.Cause = proxy.UpstreamMalformed.String()
		return c.unusable(proxy.UpstreamMalformed)
	}
	c.reply.out = out
	return nil
}
