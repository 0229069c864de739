package chat

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/billing/journal"
	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// Additions to the upstream's own answer (addendum 5.6, 5.7): with compat.answer_extras its cost,
// and the <brand>_parameters that held; these also after a lookup.

// appendExtras puts both behind the last member of a whole answer. A member of the upstream under
// the same name stays: no member is there twice.
func (c *inference) appendExtras(answer []byte, flags journal.Flags) []byte {
	if c.cites != nil {
		answer = c.cites.whole(answer)
	}
	if c.lookup.documents(&c.flags) {
		answer = c.withDocuments(answer)
	}
	end := bytes.LastIndexByte(answer, '}')
	if end < 0 {
		return answer
	}
	costs := !c.call.Config().Compat.AnswerExtras || gjson.GetBytes(answer, "cost").Exists()
	repeats := gjson.GetBytes(answer, c.call.Config().Brand+"_parameters").Exists()
	answer = answer[:end]
	if !costs {
		if cost := c.appendCostOf(nil, &c.reply.usage, flags); cost != nil {
			answer = append(append(answer, `,"cost":`...), cost...)
		}
	}
	if !repeats {
		answer = c.appendParameters(append(answer, ','), true)
	}
	return append(answer, '}')
}

// additions are those to the answer of a client of another form.
func (c *inference) additions() (a dialect.Additions) {
	if c.lookup.tells() || c.call.Config().Compat.AnswerExtras && !c.chat.Stream {
		a.Parameters = c.appendFlags(nil, true)
	}
	if c.lookup.documents(&c.flags) {
		call := c.documents()
		a.Documents = &call
	}
	if c.cites != nil {
		a.Cite = c.cites.piece
	}
	return a
}

// appendCost is dialect.Chat.Cost: it appends the cost of a stream that came to its
// end.
func (c *inference) appendCost(dst []byte, u *dialect.Usage) []byte { return c.appendCostOf(dst, u, 0) }

// appendCostOf appends the charge, as the account pays it. It is left out where the hold does not
// cover it: how the rest is paid is not known before.
func (c *inference) appendCostOf(dst []byte, u *dialect.Usage, flags journal.Flags) []byte {
	_, cost := c.costOf(u, flags)
	diem, usd, ok := c.call.Hold().Foresee(cost)
	if !ok {
		return dst
	}
	const nanoDigits = 9
	dst = config.AppendDecimal(append(dst, `{"usd":`...), int64(usd), nanoDigits)
	dst = config.AppendDecimal(append(dst, `,"diem":`...), int64(diem), nanoDigits)
	return append(dst, '}')
}

// appendParameters appends the member with the effective parameters.
func (c *inference) appendParameters(dst []byte, texts bool) []byte {
	dst = append(append(append(dst, '"'), c.call.Config().Brand...), `_parameters":`...)
	return c.appendFlags(dst, texts)
}

// appendFlags appends an object with the effective parameters and the results of a lookup.
func (c *inference) appendFlags(dst []byte, texts bool) []byte {
	f, brand := &c.flags, c.call.Config().Brand
	dst = append(dst, `{"enable_web_search":`...)
	search := f.webSearch
	if search == "" {
		search = "off"
	}
	dst = jsontext.AppendString(dst, search)
	flag := func(name string, on bool) {
		dst = append(append(append(dst, `,"`...), name...), `":`...)
		dst = strconv.AppendBool(dst, on)
	}
	flag("strip_thinking_response", f.strip)
	flag("disable_thinking", f.disable)
	flag("enable_e2ee", f.e2ee)
	flag("enable_web_scraping", f.scraping)
	flag("enable_web_citations", f.citations)
	flag("include_search_results_in_stream", f.inStream)
	flag("return_search_results_as_documents", f.documents)
	flag("enable_x_search", f.xSearch)
	if f.character != "" {
		dst = jsontext.Object(dst).Text("character_slug", f.character)
	}
	dst = append(append(append(dst, `,"include_`...), brand...), `_system_prompt":`...)
	return append(c.lookup.appendFound(strconv.AppendBool(dst, f.system), texts), '}')
}

// setCap tells the cap on completion tokens that was sent where the client named another
// one or none.
func (c *inference) setCap() {
	if n := c.chat.MaxCompletion; n > 0 && n != c.chat.AskedCompletion {
		c.call.Ctx.Response.Header.SetCanonical(c.view.capHeader,
			strconv.AppendInt(c.number[:0], c.chat.MaxCompletion, 10))
	}
}

// setLeftOut lists in a header the members that the translation of the request left out, and
// counts them for the operator.
func (c *inference) setLeftOut() {
	left := c.chat.LeftOut.All()
	if len(left) == 0 {
		return
	}
	c.call.Ctx.Response.Header.SetCanonical(c.view.leftHeader, routes.ViewBytes(c.chat.LeftOut.String()))
	for _, name := range left {
		c.owner.gateway.Metrics().GetOrCreateCounter(`farebox_left_out_total{name="` + string(name) + `"}`).Inc()
	}
}

// setLookup reports a lookup in a header, or that it failed and the model answers without.
func (c *inference) setLookup() {
	if c.lookup == nil {
		return
	}
	c.call.Ctx.Response.Header.SetCanonical(c.view.webHeader, routes.ViewBytes(c.lookup.outcome()))
	if c.chat.Stream && c.lookup.tells() && c.chat.Form == nil {
		c.tells = c.appendParameters(nil, c.flags.inStream)
		c.shows = c.lookup.documents(&c.flags)
	}
}
