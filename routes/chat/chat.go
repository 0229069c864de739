package chat

import (
	"bytes"
	"maps"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
	"farebox/routes"
)

// chatBook describes a chat body under a config: its brand's words are in it.
func chatBook(cfg *config.Config) *routes.Rulebook {
	rules := maps.Clone(chatTop)
	maps.Copy(rules, chatNested)
	for _, word := range append([]string{cfg.Brand}, cfg.BrandAliases...) {
		name := word + "_parameters"
		rules[name] = &routes.Rule{Kinds: routes.Object}
		for member, rule := range brandRules {
			rules[name+"."+member] = rule
		}
		rules[name+".include_"+word+"_system_prompt"] = &routes.Rule{Kinds: routes.Bool}
	}
	if cfg.Compat.OpenAIExtras {
		withExtras(rules)
	}
	return routes.NewRulebook(dialect.ChatShape(cfg.Brand, cfg.BrandAliases, cfg.Drops()), rules).OpenToMore()
}

// serveChat answers POST /chat/completions (interface.md, Chat; addendum 5).
func (ca *Capability) serveChat(call *routes.Call) *routes.Error {
	c := ca.begin(call)
	v, e := c.readBody()
	if e != nil {
		return e
	}
	use := checkMessages(&v, false)
	checkLists(&v)
	return c.serve(&v, &use)
}

// serve sells the chat completion that a checked body asks for.
func (c *inference) serve(v *routes.Validator, use *features) *routes.Error {
	c.readChat(v)
	if e := c.chooseModel("text", v); e != nil {
		return e
	}
	var flags brandFlags
	if e := c.readFlags(v, &flags); e != nil {
		return e
	}
	if e := c.enclose(v, use, &flags); e != nil {
		return e
	}
	if e := c.normalize(v, use); e != nil {
		return e
	}
	if e := c.hide(v, use); e != nil {
		return e
	}
	if e := c.gate(v, use, &flags); e != nil {
		return e
	}
	if c.enclave.mode == noEnclave {
		if e := c.enrich(use, &flags); e != nil {
			return e
		}
	}
	if e := c.chooseEnclaveTarget(); e != nil {
		return e
	}
	return c.infer()
}

// enrich plans additions to the request, and changes of the answer, for models that do not run in
// an enclave.
func (c *inference) enrich(use *features, flags *brandFlags) *routes.Error {
	if e := c.instruct(flags); e != nil {
		return e
	}
	c.parses = use.files > 0 && !c.call.Model.Chat.Capabilities.Files
	if c.flags = *flags; c.call.Config().Compat.AnswerExtras {
		c.chat.Cost = c.onCost
	}
	if e := c.plan(&c.flags); e != nil {
		return e
	}
	c.chat.Prepare(flags.strip || flags.disable, flags.disable)
	return c.tellable()
}

// readBody reads the body for a text model and applies the rules of the row.
func (c *inference) readBody() (v routes.Validator, e *routes.Error) {
	book := c.call.Rules()
	e = c.call.ReadJSON(book.Root)
	c.chat.Body, c.chat.Doc, c.chat.Choices = c.call.Body, &c.call.Doc, 1
	if v = (routes.Validator{Body: c.chat.Body, Doc: c.chat.Doc, Book: book}); e == nil {
		v.CheckAll()
	}
	return v, e
}

// readChat takes the values that decide money and streaming out of the fields.
// Wrong ones are issues already and stay at their zero value.
func (c *inference) readChat(v *routes.Validator) {
	if f := v.Member(-1, dialect.ChatStream); f != nil {
		c.chat.Stream = f.Kind == scan.True
		c.call.Streams = c.chat.Stream
	}
	if i := v.Doc.TopIndex(dialect.ChatStreamOptions); i >= 0 {
		if f := v.Member(i, dialect.StreamIncludeUsage); f != nil {
			c.chat.IncludeUsage = &includeUsage[boolIndex(f.Kind == scan.True)]
		}
	}
	c.chat.Choices = max(1, v.Integer(dialect.ChatN))
	c.chat.AskedCompletion = v.Integer(dialect.ChatMaxCompletionTokens)
	if f := v.Member(-1, dialect.ChatMaxTokens); f != nil {
		c.readMaxTokens(v, dialect.ChatMaxTokens)
	}
	c.call.NoteUser(v.Text(-1, dialect.TopUser))
}

var includeUsage = [2]bool{false, true}

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readMaxTokens refuses max_tokens, or maps it where the operator switched
// that on: max_completion_tokens wins, values below 1 are ignored (D1).
func (c *inference) readMaxTokens(v *routes.Validator, id int) {
	if !c.call.Config().Compat.AcceptMaxTokens {
		v.Add(routes.Issue{Code: "unrecognized_keys", Path: "max_tokens",
			Message: "max_tokens: is not accepted; use max_completion_tokens."})
		c.call.Hint = "compat.accept_max_tokens: true takes max_tokens, which most clients send"
		return
	}
	c.chat.ClientMaxTokens = true
	if n := v.Integer(id); n > 0 && c.chat.AskedCompletion == 0 {
		c.chat.AskedCompletion, c.chat.MaxCompletion = n, n
	}
}

// chooseModel resolves the model, then answers with the errors so far: the failed-request budget,
// the validation issues, the state of the model.
func (c *inference) chooseModel(typ string, v *routes.Validator) *routes.Error {
	name := v.Text(-1, dialect.TopModel)
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(gjson.Parse(`"` + string(name) + `"`).Str)
	}
	if typ == "text" {
		name, c.chat.Suffix = providers.SplitSuffix(name)
	}
	model, match := c.call.Catalog().Resolve(name, typ)
	if e := c.call.UseModel(name, typ, model, match, v.Issues); e != nil {
		return e
	}
	if asked, most := c.chat.AskedCompletion, model.Chat.MaxCompletionTokens; typ == "text" && asked > most {
		if c.adapts().Cap != "" {
			// Its clients ask for the highest cap of the model that they know, or for a fixed
			// number.
			c.clamped, c.chat.Model = true, model
			return nil
		}
		text := strconv.FormatInt(most, 10)
		return routes.Invalid(routes.Issue{Code: "too_big", Path: "max_completion_tokens", Maximum: text,
			Message: "max_completion_tokens: must be between 1 and " + text + " for model " + model.ID + ", is " +
				strconv.FormatInt(asked, 10) + "."})
	}
	c.chat.Model = model
	return nil
}
