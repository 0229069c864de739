package routes

import (
	"bytes"
	"hash/maphash"
	"maps"
	"net/url"
	"strconv"
	"strings"
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

// features is what the messages of a request use, for the capability gates.
type features struct{ images, audios, videos, files int }

// Per-message caps of addendum 5.2.
const (
	maxMessageImages = 10
	maxMessageAudios = 5
	maxMessageVideos = 3
	maxMessageFiles  = 5
)

// checkMessages applies the rules that depend on a message's role and on a
// part's type (addendum 5.2).
func (r *chatRules) checkMessages(v *validator) (use features) {
	messages := v.doc.TopIndex(dialect.ChatMessages)
	if messages < 0 {
		return use
	}
	fields := v.doc.Fields
	for i := messages + 1; i < fields[messages].Next; i = fields[i].Next {
		if fields[i].Kind != scan.Object {
			continue
		}
		role, content := v.text(i, dialect.MessageRole), v.member(i, dialect.MessageContent)
		path := func(member string) string { return v.doc.Path(i) + "." + member }
		switch string(role) {
		case "assistant":
			if content == nil && v.member(i, dialect.MessageToolCalls) == nil {
				v.add(Issue{Code: "custom", Path: path("content"), Message: path("content") + ": an assistant message must have content or tool_calls."})
			}
		case "tool":
			if content == nil {
				v.add(Issue{Code: "invalid_type", Path: path("content"), Expected: "string", Received: "undefined", Message: path("content") + ": is required in a tool message."})
			}
			if v.member(i, dialect.MessageToolCallID) == nil {
				v.add(Issue{Code: "invalid_type", Path: path("tool_call_id"), Expected: "string", Received: "undefined", Message: path("tool_call_id") + ": is required in a tool message."})
			}
		default:
			if content == nil && role != nil {
				v.add(Issue{Code: "invalid_type", Path: path("content"), Expected: "string or array", Received: "undefined", Message: path("content") + ": is required."})
			}
		}
		if content == nil || content.Kind != scan.Array {
			continue
		}
		if content.Len == 0 {
			v.add(Issue{Code: "too_small", Path: path("content"), Minimum: "1", Message: path("content") + ": must have at least 1 part."})
		}
		r.checkParts(v, v.doc.Member(i, dialect.MessageContent), role, &use)
	}
	return use
}

func (r *chatRules) checkParts(v *validator, content int32, role []byte, use *features) {
	fields := v.doc.Fields
	part := r.shape.Child(dialect.ChatMessages).Child(dialect.MessageContent)
	var own features
	for i := content + 1; i < fields[content].Next; i = fields[i].Next {
		if fields[i].Kind != scan.Object {
			continue
		}
		kind := v.text(i, dialect.PartType)
		need, name := -1, ""
		switch string(kind) {
		case "text":
			need, name = dialect.PartText, "text"
		case "image_url":
			need, name = dialect.PartImage, "image_url"
			own.images++
		case "input_audio":
			need, name = dialect.PartAudio, "input_audio"
			own.audios++
		case "video_url":
			need, name = dialect.PartVideo, "video_url"
			own.videos++
		case "file":
			need, name = dialect.PartFile, "file"
			own.files++
		case "refusal":
			need, name = dialect.PartRefusal, "refusal"
		default:
			continue // its type was refused already
		}
		path := v.doc.Path(i)
		switch {
		case string(kind) == "text" || len(role) == 0:
		case string(kind) == "refusal":
			if string(role) != "assistant" {
				v.add(Issue{Code: "custom", Path: path + ".type", Message: path + ".type: refusal parts are allowed in an assistant message only."})
			}
		case string(role) != "user":
			v.add(Issue{Code: "custom", Path: path + ".type", Message: path + ".type: only text parts are allowed in a " + string(role) + " message."})
		}
		if v.member(i, need) == nil {
			v.add(Issue{Code: "invalid_type", Path: path + "." + name, Expected: v.book.of(part).rules[need].kinds.String(), Received: "undefined", Message: path + "." + name + ": is required in a part of type " + string(kind) + "."})
		}
	}
	for _, limit := range [...]struct {
		n, most int
		what    string
	}{{own.images, maxMessageImages, "images"}, {own.audios, maxMessageAudios, "audio parts"}, {own.videos, maxMessageVideos, "videos"}, {own.files, maxMessageFiles, "files"}} {
		if limit.n > limit.most {
			most := strconv.Itoa(limit.most)
			path := v.doc.Path(content)
			v.add(Issue{Code: "too_big", Path: path, Maximum: most, Message: path + ": must have at most " + most + " " + limit.what + ", has " + strconv.Itoa(limit.n) + "."})
		}
	}
	use.images += own.images
	use.audios += own.audios
	use.videos += own.videos
	use.files += own.files
}

var (
	stopRule      = &rule{kinds: kString, required: true, nonEmpty: true, length: maxStopLength}
	stringRule    = &rule{kinds: kString, required: true}
	stopTokenRule = &rule{kinds: kNumber, required: true, integer: true}
)

// checkLists checks the elements of arrays that the scan does not look into.
func (r *chatRules) checkLists(v *validator) {
	v.checkElements(dialect.ChatStop, stopRule)
	v.checkElements(dialect.ChatStopTokenIDs, stopTokenRule)
	v.checkElements(dialect.ChatInclude, stringRule)
	if i := v.doc.TopIndex(dialect.ChatStop); i >= 0 && v.doc.Fields[i].Kind == scan.Array && v.doc.Fields[i].Len > maxStopSequences {
		v.add(Issue{Code: "too_big", Path: "stop", Maximum: "4", Message: "stop: must have at most 4 sequences, has " + strconv.Itoa(int(v.doc.Fields[i].Len)) + "."})
	}
	if i := v.doc.TopIndex(dialect.ChatMetadata); i >= 0 && v.doc.Fields[i].Kind == scan.Object {
		gjson.Parse(bytesString(v.doc.Fields[i].Raw(v.body))).ForEach(func(key, value gjson.Result) bool {
			if value.Type != gjson.String {
				name := excerpt(stringBytes(key.Str))
				v.add(Issue{Code: "invalid_type", Path: "metadata", Named: name, Expected: "string", Message: "metadata." + name + ": expected string."})
			}
			return len(v.issues) < maxIssues
		})
	}
	r.checkChoices(v)
	fields := v.doc.Fields
	if tools := v.doc.TopIndex(dialect.ChatTools); tools >= 0 {
		for i := tools + 1; i < fields[tools].Next; i = fields[i].Next {
			if string(v.text(i, dialect.ToolType)) == "function" && v.member(i, dialect.ToolTarget) == nil {
				path := v.doc.Path(i) + ".function"
				v.add(Issue{Code: "invalid_type", Path: path, Expected: "object", Received: "undefined", Message: path + ": is required in a tool of type function."})
			}
		}
	}
}

// checkChoices refuses a tool choice and an answer's format that name what they
// do not have.
func (r *chatRules) checkChoices(v *validator) {
	missing := func(path, of string) {
		v.add(Issue{Code: "invalid_type", Path: path, Expected: "object", Received: "undefined", Message: path + ": is required in " + of + "."})
	}
	if i := v.doc.TopIndex(dialect.ChatToolChoice); i >= 0 && string(v.text(i, dialect.ChoiceType)) == "function" && v.member(i, dialect.ChoiceTarget) == nil {
		missing("tool_choice.function", "a tool_choice of type function")
	}
	i := v.doc.TopIndex(dialect.ChatResponseFormat)
	if i < 0 || string(v.text(i, dialect.FormatType)) != "json_schema" {
		return
	}
	holder := v.member(i, dialect.FormatSchema)
	if holder == nil {
		missing("response_format.json_schema", "a response_format of type json_schema")
		return
	}
	if at := v.doc.Member(i, dialect.FormatSchema); holder.Kind != scan.Object || v.member(at, dialect.SchemaSchema) != nil {
		return
	}
	// Some clients put the schema under json_schema itself (addendum, D7).
	direct := false
	gjson.Parse(bytesString(holder.Raw(v.body))).ForEach(func(key, _ gjson.Result) bool {
		direct = direct || key.Str != "name" && key.Str != "strict" && key.Str != "description" && key.Str != "schema"
		return !direct
	})
	if !direct {
		missing("response_format.json_schema.schema", "a response_format of type json_schema")
	}
}

// checkElements applies a rule to every element of a top array.
func (v *validator) checkElements(id int, r *rule) {
	i := v.doc.TopIndex(id)
	if i < 0 || v.doc.Fields[i].Kind != scan.Array {
		return
	}
	n := 0
	gjson.Parse(bytesString(v.doc.Fields[i].Raw(v.body))).ForEach(func(_, value gjson.Result) bool {
		k, length := kNumber, 0
		switch value.Type {
		case gjson.String:
			k = kString
		case gjson.True, gjson.False:
			k = kBool
		case gjson.Null:
			k = kNull
		case gjson.JSON:
			k = kObject
			if value.IsArray() {
				k = kArray
			}
		}
		raw := stringBytes(value.Raw)
		v.checkValue(k, raw, length, r, place{v.doc, i, n})
		n++
		return len(v.issues) < maxIssues
	})
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
	if asked, most := c.chat.AskedCompletion, model.Config.MaxCompletionTokens; typ == "text" && asked > most {
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
		return isPrivate(m) || m.Type != "text" && m.Type != "embedding"
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

// brandFlags are the effective <brand>_parameters (addendum 5.3), after the
// model suffix has overridden them (5.4).
type brandFlags struct {
	strip, disable, system, e2ee             bool
	webSearch                                string
	scraping, citations, inStream, documents bool
	xSearch                                  bool
	character                                string
	word                                     string // of the object that they stood in; empty: the model's suffix
}

func (c *inference) readFlags(v *validator, f *brandFlags) *Error {
	f.system, f.e2ee = true, true
	r := c.snap.chat
	for n := range 1 + len(c.snap.cfg.BrandAliases) {
		id := dialect.ChatBrand + n
		at := v.doc.TopIndex(id)
		if at < 0 {
			continue
		}
		shape := r.shape.Child(id)
		word := c.brandWord(n)
		for i := at + 1; i < v.doc.Fields[at].Next; i = v.doc.Fields[i].Next {
			field := &v.doc.Fields[i]
			if field.Kind == scan.Null {
				continue // as good as absent
			}
			raw := field.Raw(v.body)
			if field.Kind == scan.String {
				raw = raw[1 : len(raw)-1]
			}
			f.set(shape.Name(int(field.Name)), string(raw), word)
			f.word = word
		}
	}
	for suffix := string(c.chat.Suffix); suffix != ""; {
		var pair string
		pair, suffix, _ = strings.Cut(suffix, "&")
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return errInvalid(Issue{Code: "custom", Path: "model", Message: "model: the value of " + excerpt([]byte(key)) + " in the suffix is not URL-encoded text."})
		}
		if key == "enable_e2ee" || key == "enable_x_search" {
			continue // not for the suffix (addendum 5.4)
		}
		f.set(key, value, c.brandWord(0))
	}
	return nil
}

func (c *Call) brandWord(n int) string {
	if n == 0 {
		return c.snap.cfg.Brand
	}
	return c.snap.cfg.BrandAliases[n-1]
}

func (f *brandFlags) set(key, value, brand string) {
	on := value == "true"
	switch key {
	case "character_slug":
		f.character = value
	case "strip_thinking_response":
		f.strip = on
	case "disable_thinking":
		f.disable = on
	case "enable_e2ee":
		f.e2ee = on
	case "enable_web_search":
		f.webSearch = value
	case "enable_web_scraping":
		f.scraping = on
	case "enable_web_citations":
		f.citations = on
	case "include_search_results_in_stream":
		f.inStream = on
	case "return_search_results_as_documents":
		f.documents = on
	case "enable_x_search":
		f.xSearch = on
	case "include_" + brand + "_system_prompt":
		f.system = on
	}
}

// gate refuses what the model cannot do (addendum 5.5). Each refusal counts
// into the unsupported-feature budget.
func (c *inference) gate(v *validator, use *features, f *brandFlags) *Error {
	can := &c.model.Config.Capabilities
	no := func(path, what string) *Error {
		return errUnsupported(path, "Model "+c.model.ID+" does not support "+what+".")
	}
	word := f.word // as the client wrote it
	if word == "" {
		word = c.brandWord(0)
	}
	most := func(n int) int { return max(1, n) }
	switch {
	case use.images > 0 && !can.Vision:
		return no("messages", "image input")
	case use.images > 1 && use.images > most(can.MaxImages):
		return no("messages", strconv.Itoa(use.images)+" images in one request; at most "+strconv.Itoa(most(can.MaxImages)))
	case use.files > 0 && !can.Files:
		return no("messages", "file input")
	case use.audios > 0 && !can.Audio:
		return no("messages", "audio input")
	case use.videos > 0 && !can.Video:
		return no("messages", "video input")
	case use.videos > 1 && use.videos > most(can.MaxVideos):
		return no("messages", strconv.Itoa(use.videos)+" videos in one request; at most "+strconv.Itoa(most(can.MaxVideos)))
	case v.isTrue(dialect.ChatLogprobs) && !can.LogProbs:
		return no("logprobs", "log probabilities")
	case v.integer(dialect.ChatTopLogprobs) > 0 && !can.LogProbs:
		return no("top_logprobs", "log probabilities")
	case f.character != "":
		return &Error{Status: 404, Code: "CHARACTER_NOT_FOUND", Message: "Unknown character " + excerpt([]byte(f.character)) + ": this service has no characters."}
	case f.webSearch != "" && f.webSearch != "off":
		return no(word+"_parameters.enable_web_search", "web search")
	case f.scraping:
		return no(word+"_parameters.enable_web_scraping", "web scraping")
	case f.xSearch:
		return no(word+"_parameters.enable_x_search", "x search")
	}
	if i := v.doc.TopIndex(dialect.ChatTools); i >= 0 && v.doc.Fields[i].Len > 0 {
		if !can.Tools {
			return no("tools", "tools")
		}
		for t := i + 1; t < v.doc.Fields[i].Next; t = v.doc.Fields[t].Next {
			// Custom tools pass the rules with compat.openai_extras only.
			if kind := v.text(t, dialect.ToolType); string(kind) != "function" && string(kind) != "custom" {
				return no(v.doc.Path(t)+".type", "the built-in tool "+excerpt(kind))
			}
		}
	}
	if i := v.doc.TopIndex(dialect.ChatResponseFormat); i >= 0 && v.doc.Fields[i].Kind == scan.Object {
		if kind := v.text(i, dialect.FormatType); string(kind) == "json_schema" && !can.ResponseSchema {
			return no("response_format", "json_schema response formats")
		}
	}
	if len(c.ctx.Request.Header.Peek(c.snap.names.e2eeKey)) > 0 {
		return no("", "end-to-end encryption")
	}
	return c.gateEffort(v)
}

// gateEffort checks the effective reasoning effort (reasoning_effort wins over
// reasoning.effort) against the levels of the model's record.
func (c *inference) gateEffort(v *validator) *Error {
	path := "reasoning_effort"
	effort := v.text(-1, dialect.ChatReasoningEffort)
	if i := v.doc.TopIndex(dialect.ChatReasoning); i >= 0 && effort == nil {
		path = "reasoning.effort"
		effort = v.text(i, dialect.ReasoningEffort)
	}
	options := c.model.Config.Capabilities.ReasoningEffort
	if !c.model.Config.Capabilities.Reasons() {
		return c.gateReasoning(v, path, effort)
	}
	if effort == nil || len(options) == 0 {
		return nil
	}
	for _, o := range options {
		if o == string(effort) {
			return nil
		}
	}
	list := ""
	for i, o := range options {
		if i > 0 {
			list += ", "
		}
		list += o
	}
	return &Error{
		Status: 400, Code: "INVALID_REQUEST", Unsupported: true,
		Message: "Model " + c.model.ID + " does not support the reasoning effort " + string(effort) + ".",
		Issues:  []Issue{{Code: "invalid_enum_value", Path: path, Received: string(effort), Options: options, Message: path + ": model " + c.model.ID + " takes one of " + list + "."}},
	}
}

// gateReasoning refuses to make a model reason that does not. That it shall not
// is said already, in words that such models do not know.
func (c *inference) gateReasoning(v *validator, path string, effort []byte) *Error {
	if i := v.doc.TopIndex(dialect.ChatReasoning); i >= 0 && effort == nil {
		path = "reasoning.enabled"
		if at := v.doc.Member(i, dialect.ReasoningEnabled); at >= 0 && v.doc.Fields[at].Kind == scan.True {
			effort = []byte("enabled")
		}
	}
	if effort != nil && string(effort) != "none" {
		return errUnsupported(path, "Model "+c.model.ID+" does not support reasoning.")
	}
	c.chat.NoReasoning = true
	return nil
}

func (v *validator) isTrue(id int) bool {
	f := v.member(-1, id)
	return f != nil && f.Kind == scan.True
}
