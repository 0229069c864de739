package routes

import (
	"bytes"
	"hash/maphash"
	"maps"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/dialect"
	"farebox/proxy/scan"
)

// chatRules is what the chat endpoint checks, resolved against the Shape of
// one brand.
type chatRules struct {
	shape *scan.Shape
	book  *rulebook
}

func newChatRules(cfg *config.Config) *chatRules {
	r := &chatRules{shape: dialect.ChatShape(cfg.Brand, cfg.BrandAliases, cfg.Drops())}
	rules := maps.Clone(chatTop)
	maps.Copy(rules, chatNested)
	for _, word := range append([]string{cfg.Brand}, cfg.BrandAliases...) {
		name := word + "_parameters"
		rules[name] = &rule{kinds: kObject}
		for member, rule := range brandRules {
			rules[name+"."+member] = rule
		}
		rules[name+".include_"+word+"_system_prompt"] = &rule{kinds: kBool}
	}
	if cfg.Compat.OpenAIExtras {
		withExtras(rules)
	}
	r.book = newRulebook(r.shape, rules)
	return r
}

// serveChat answers POST /chat/completions (interface.md, Chat; addendum 5).
func serveChat(g *Gateway, call *Call) *Error {
	c := g.inference(call)
	rules := c.snap.chat
	if e := c.readChatBody(rules.shape); e != nil {
		return e
	}
	v := validator{body: c.chat.Body, doc: &c.doc, book: rules.book}
	v.checkAll()
	use := rules.checkMessages(&v)
	rules.checkLists(&v)
	c.readChat(&v)
	if e := c.chooseModel("text", &v); e != nil {
		return e
	}
	var flags brandFlags
	if e := c.readFlags(&v, &flags); e != nil {
		return e
	}
	if e := c.gate(&v, &use, &flags); e != nil {
		return e
	}
	if c.snap.cfg.Compat.AnswerExtras {
		c.flags, c.chat.Cost = flags, c.onCost
	}
	c.chat.Prepare(flags.strip || flags.disable, flags.disable)
	if flags.system && c.snap.cfg.SystemPrompt != "" {
		c.chat.SystemPrompt = stringBytes(c.snap.cfg.SystemPrompt)
	}
	return c.infer()
}

// readJSON checks the content type and scans the body once.
func (c *Call) readJSON(shape *scan.Shape) *Error {
	if !isJSON(c.ctx.Request.Header.ContentType()) {
		return &Error{Status: 415, Code: "INVALID_CONTENT_TYPE", Message: "Content-Type must be application/json, is " + strconv.Quote(excerpt(c.ctx.Request.Header.ContentType())) + ".", Uncounted: true}
	}
	if coding := c.ctx.Request.Header.ContentEncoding(); len(coding) > 0 && !bytes.EqualFold(bytes.TrimSpace(coding), []byte("identity")) {
		return &Error{Status: 415, Code: "INVALID_CONTENT_TYPE", Message: "Content-Encoding " + strconv.Quote(excerpt(coding)) + " is not accepted on requests; send the JSON as it is.", Uncounted: true}
	}
	body := c.ctx.Request.Body()
	if len(body) == 0 {
		return errBody("", "the request body is empty; a JSON object is expected")
	}
	if err := c.doc.SkimStrict(body, shape); err != nil {
		se := err.(*scan.Error)
		e := errBody(se.Path, se.Error())
		e.Uncounted = se.Reason != scan.Duplicate && se.Reason != scan.Variant
		return e
	}
	c.body = body
	return nil
}

func isJSON(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(media), []byte("application/json"))
}

// readChatBody is readJSON for what a text model is asked.
func (c *inference) readChatBody(shape *scan.Shape) *Error {
	e := c.readJSON(shape)
	c.chat.Body, c.chat.Doc, c.chat.Choices = c.body, &c.doc, 1
	return e
}

// readChat takes the values that decide money and streaming out of the fields.
// Wrong ones are issues already and stay at their zero value.
func (c *inference) readChat(v *validator) {
	if f := v.member(-1, dialect.ChatStream); f != nil {
		c.chat.Stream = f.Kind == scan.True
		c.streams = c.chat.Stream
	}
	if i := v.doc.TopIndex(dialect.ChatStreamOptions); i >= 0 {
		if f := v.member(i, dialect.StreamIncludeUsage); f != nil {
			c.chat.IncludeUsage = &includeUsage[boolIndex(f.Kind == scan.True)]
		}
	}
	c.chat.Choices = max(1, v.integer(dialect.ChatN))
	c.chat.AskedCompletion = v.integer(dialect.ChatMaxCompletionTokens)
	if f := v.member(-1, dialect.ChatMaxTokens); f != nil {
		c.readMaxTokens(v, dialect.ChatMaxTokens)
	}
	if user := v.text(-1, dialect.TopUser); len(user) > 0 {
		c.user = maphash.Bytes(userSeed, user)
	}
}

var (
	includeUsage = [2]bool{false, true}
	userSeed     = maphash.MakeSeed()
)

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readMaxTokens refuses max_tokens, or maps it where the operator switched
// that on: max_completion_tokens wins, values below 1 are ignored (D1).
func (c *inference) readMaxTokens(v *validator, id int) {
	if !c.snap.cfg.Compat.AcceptMaxTokens {
		v.add(Issue{Code: "unrecognized_keys", Path: "max_tokens", Message: "max_tokens: is not accepted; use max_completion_tokens."})
		c.hint = "compat.accept_max_tokens: true takes max_tokens, which most clients send"
		return
	}
	c.chat.ClientMaxTokens = true
	if n := v.integer(id); n > 0 && c.chat.AskedCompletion == 0 {
		c.chat.AskedCompletion, c.chat.MaxCompletion = n, n
	}
}

// integer is the value of a top member that passed its rule, else 0.
func (v *validator) integer(id int) int64 {
	f := v.member(-1, id)
	if f == nil || f.Kind != scan.Number {
		return 0
	}
	n, err := strconv.ParseInt(bytesString(f.Raw(v.body)), 10, 64)
	if err != nil {
		// Written as 1e3 or 12.0: whole, as its rule has checked.
		x, err := strconv.ParseFloat(bytesString(f.Raw(v.body)), 64)
		if err != nil || x > 1<<53 || x < -(1<<53) {
			return 0
		}
		n = int64(x)
	}
	return n
}

// chooseModel resolves the model, then answers with what is wrong so far: the
// failed-request budget, the validation issues, the state of the model.
func (c *inference) chooseModel(typ string, v *validator) *Error {
	name := v.text(-1, dialect.TopModel)
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(gjson.Parse(`"` + string(name) + `"`).Str)
	}
	if typ == "text" {
		name, c.chat.Suffix = providers.SplitSuffix(name)
	}
	model, match := c.snap.catalog.Resolve(name, typ)
	if e := c.useModel(name, model, match, v.issues); e != nil {
		return e
	}
	if asked, most := c.chat.AskedCompletion, model.Chat.MaxCompletionTokens; typ == "text" && asked > most {
		text := strconv.FormatInt(most, 10)
		return errInvalid(Issue{Code: "too_big", Path: "max_completion_tokens", Maximum: text, Message: "max_completion_tokens: must be between 1 and " + text + " for model " + model.ID + ", is " + strconv.FormatInt(asked, 10) + "."})
	}
	c.chat.Model = model
	return nil
}

// useModel makes a model that was found by name (nil: none was) the one of this
// request, or says in order what is wrong so far.
func (c *Call) useModel(name []byte, model *dialect.Model, match providers.Match, issues []Issue) *Error {
	c.model = model
	if until, kind := c.g.ledger.FailureBlock(c.key, c.slot(), c.user, c.startNs); until > 0 {
		return c.blocked(until, kind)
	}
	if len(issues) > 0 {
		return errInvalid(issues...)
	}
	switch {
	case match == providers.Gone:
		c.model = nil
		return &Error{Status: fasthttp.StatusGone, Code: "MODEL_NOT_FOUND", Message: "Model " + excerpt(name) + " has been retired."}
	case model == nil:
		return &Error{Status: 404, Code: "MODEL_NOT_FOUND", Message: "Unknown model " + excerpt(name) + "; GET " + prefix + "/models lists the models.", Issues: []Issue{{Code: "custom", Path: "model", Message: "model: unknown model " + excerpt(name) + "."}}}
	case !c.mayUse(model.Config):
		return &Error{Status: 403, Code: "UNAUTHORIZED", Message: "This API key may only use " + privateScope(c.key.Privacy) + " that are private; model " + model.ID + " is not."}
	case model.Config.Offline:
		return &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "Model " + model.ID + " is temporarily offline.", RetryAfter: overloadRetry}
	}
	return nil
}

// mayUse says whether the key's modelPrivacy lets it use the model (addendum 16.1).
func (c *Call) mayUse(m *config.Model) bool {
	switch c.key.Privacy {
	case billing.PrivateText:
		return isPrivate(m) || !m.Spec.Text()
	case billing.PrivateOnly:
		return isPrivate(m)
	}
	return true
}

// isPrivate is what the record says of where prompts go.
func isPrivate(m *config.Model) bool { return m.Privacy == "private" }

func privateScope(p billing.ModelPrivacy) string {
	if p == billing.PrivateText {
		return "text and embedding models"
	}
	return "models"
}

func (c *Call) blocked(until int64, kind string) *Error {
	c.noteLimit(kind)
	c.ctx.Response.Header.Set("X-Ratelimit-Type", "api_key")
	c.ctx.Response.Header.Set("X-Ratelimit-Remaining", "0")
	c.ctx.Response.Header.Set("X-Ratelimit-Resets", strconv.FormatInt(until/1e6, 10))
	text := "Too many failed requests with this API key; it is blocked for this model for a short time."
	if kind == billing.AbortedRequests {
		text = "Too many requests with this API key were left before their end; it is blocked for a short time."
	}
	return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: max(retrySoon, time.Duration(until-c.startNs)), Message: text}
}
