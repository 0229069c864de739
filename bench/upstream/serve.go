package upstream

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// serveModel answers the model endpoints under the request's scenario.
func (c *conn) serveModel(path string) bool {
	x := &exchange{endpoint: "other", opened: time.Now(), outcome: Complete, sc: &Scenario{}}
	c.srv.truth.open.Add(1)
	c.watch()
	status, keep, err := c.answer(path, x)
	c.unwatch()
	c.srv.truth.received(&c.req, path, status)
	c.settle(x, err != nil) // a peer that left after the last byte lost nothing
	if err != nil {
		return false
	}
	if x.outcome == Broken && x.sc.Cut != "" {
		c.cut(x.sc.Cut)
		return false
	}
	if keep && x.sc.Stray.N > 0 {
		return c.stray(x.sc)
	}
	return keep
}

// promptOf is the cost of a request's prompt in tokens, for any outcome.
func (c *conn) promptOf(path string, asked gjson.Result) int64 {
	switch {
	case strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/messages"),
		strings.HasSuffix(path, "/responses"):
		return CountPrompt(c.req.body)
	case strings.HasSuffix(path, wholeMethod), strings.HasSuffix(path, streamMethod):
		return CountPrompt([]byte(asked.Raw))
	case strings.HasSuffix(path, "/embeddings"):
		return embeddingTokens(asked.Get("input"))
	}
	return 0
}

func (c *conn) answer(path string, x *exchange) (status int, keep bool, err error) {
	to, cloud, refusal := c.routeCloud(path)
	if refusal != nil {
		x.outcome = Refused
		c.extra = append(c.extra, refusal.Header...)
		return c.reply(x.sc, refusal.Status, contentJSON, []byte(refusal.Body))
	}
	path, x.cloud = to, cloud
	if status, keep, err, handled := c.jobs(x, path); handled {
		return status, keep, err
	}
	asked := gjson.ParseBytes(c.req.body)
	painter, ok := painterOf(path)
	var p *painting
	if ok {
		if p, asked = c.painting(path); p == nil {
			return c.refuse(x, false, 400, failure{kind: "invalid_request_error", text: "malformed form"})
		}
	}
	ear, hears := earOf(path)
	if hears {
		h, _ := c.heard()
		// Its directive is in the words that are said to have gone before.
		asked = gjson.ParseBytes(fmt.Appendf(nil, `{"prompt":%s,"model":%s}`, quoted(h.field("prompt")),
			quoted(h.field("model"))))
	}
	_, query, _ := strings.Cut(string(c.req.path), "?")
	service, how, searches := searchOf(path)
	if searches {
		// Its directive is in the words that are searched for.
		words, _ := c.searched(&how, query)
		asked = gjson.ParseBytes(fmt.Appendf(nil, `{"prompt":%s}`, quoted(words.Get(how.words).String())))
	}
	speaks, labs := speakerOf(path)
	if speaks {
		asked = speechAsked(asked)
	}
	google, streamed, generates := googleCall(path)
	if generates {
		asked = googleAsked(google, streamed, c.req.body)
		x.google = true
	}
	sc, err := c.scenario(asked)
	counts := strings.HasSuffix(path, "/messages/count_tokens")
	anthropic := strings.HasSuffix(path, "/messages") || counts
	if err != nil {
		return c.refuse(x, anthropic, 400, failure{kind: "invalid_request_error", text: err.Error()})
	}
	x.sc = sc
	if sc.ID != "" {
		x.prompt = c.promptOf(path, asked)
	}
	if !c.authorized() && !strings.HasPrefix(path, "/fal/files/") && !searches && !strings.HasPrefix(path, "/site/") { // as with fal, links are enough
		return c.refuse(x, anthropic, 401, badKey(c.req.key))
	}
	if sc.Hang {
		x.endpoint, x.tally.PromptTokens = "hang", 0
		return 0, false, c.waitGone()
	}
	if err := c.pause(sc.Delay); err != nil {
		return 0, false, err
	}
	switch {
	case sc.Garbage:
		x.outcome = Broken
		return 0, false, c.write([]byte("\x00\x01 this is not HTTP\r\n\r\n"))
	case sc.Cut != "" && sc.CutAfter.Set && sc.CutAfter.N == 0:
		x.outcome = Broken
		return 0, false, nil
	case painter != nil:
		return painter(c, x, p)
	case speaks:
		return c.speak(x, path, query, labs)
	case hears:
		return c.transcribe(x, ear)
	case sc.Status >= 400:
		return c.refuse(x, anthropic, sc.Status, failureFor(sc, asked.Get("model").Str))
	}
	switch {
	case strings.HasSuffix(path, "/models") && string(c.req.method) == "GET":
		x.endpoint = "models"
		return c.sendBody(x, c.modelList())
	case searches:
		return c.search(x, service, &how, query)
	case strings.HasPrefix(path, "/site/"), path == "/robots.txt":
		return c.site(x, path)
	case strings.HasPrefix(path, "/x402/"):
		x.endpoint = "x402"
		status, body := c.srv.facilitator().Answer(string(c.req.method), strings.TrimPrefix(path, "/x402/"), c.req.body)
		return c.reply(sc, status, contentJSON, body)
	case string(c.req.method) != "POST":
		return c.refuse(x, anthropic, 404, unknownURL(string(c.req.method), path))
	case strings.HasPrefix(path, "/rpc/"):
		x.endpoint, x.tally.PromptTokens, x.units = "rpc", 0, 1
		if err := c.pause(sc.Think); err != nil {
			return 0, false, err
		}
		return c.sendBody(x, c.srv.node(strings.TrimPrefix(path, "/rpc/")).Answer(c.req.body))
	case strings.HasSuffix(path, "/chat/completions"):
		return c.chat(x, asked)
	case counts:
		return c.countTokens(x, asked)
	case anthropic:
		return c.messages(x, asked)
	case strings.HasSuffix(path, "/responses"):
		return c.responses(x, asked)
	case generates:
		return c.generate(x, asked, query)
	case strings.HasSuffix(path, "/embeddings"):
		return c.embeddings(x, asked)
	}
	return c.refuse(x, anthropic, 404, unknownURL(string(c.req.method), path))
}

// scenario collects the keys: server, drawn fault, model suffix, header,
// message. Later ones win.
func (c *conn) scenario(asked gjson.Result) (*Scenario, error) {
	sc := c.srv.options.Scenario
	for _, text := range []string{c.srv.draw(), suffix(asked.Get("model").Str), string(c.req.sim), c.written(asked)} {
		if text == "" {
			continue
		}
		if err := sc.Apply(text); err != nil {
			return nil, err
		}
	}
	if sc.FailFirst > 0 {
		if !c.srv.failFirst(sc.ID, sc.FailFirst) {
			sc.Status = 0
		} else if sc.Status == 0 {
			sc.Status = 500
		}
	}
	return &sc, nil
}

func suffix(model string) string {
	_, after, _ := strings.Cut(model, "@")
	return after
}

// written finds a directive in the last user message, in the input of an
// embeddings request, or in the id of a JSON-RPC call.
func (c *conn) written(asked gjson.Result) string {
	if !strings.Contains(asked.Raw, string(simOpen)) {
		return ""
	}
	found := ""
	asked.Get("messages").ForEach(func(_, m gjson.Result) bool {
		if m.Get("role").Str != "user" {
			return true
		}
		content := m.Get("content")
		if content.IsArray() && !content.Get(`#(type!="tool_result")`).Exists() {
			return true // the results of tools, which no user wrote
		}
		found = ""
		if text, ok := directive([]byte(content.String())); ok && !content.IsArray() {
			found = text
		}
		content.ForEach(func(_, part gjson.Result) bool {
			if text, ok := directive([]byte(part.Get("text").Str)); ok {
				found = text
			}
			return true
		})
		return true
	})
	if text, ok := directive([]byte(asked.Get("prompt").Str)); ok {
		found = text
	}
	if text, ok := directive([]byte(asked.Get("id").Str)); ok && asked.Get("jsonrpc").Exists() {
		found = text
	}
	if input := asked.Get("input"); input.Exists() {
		found, _ = directive([]byte(input.String()))
		input.ForEach(func(_, item gjson.Result) bool {
			if text, ok := directive([]byte(item.Get("content").Raw)); ok && item.Get("role").Str == "user" {
				found = text
			}
			return true
		})
	}
	return found
}

// sendBody answers 200 with a JSON body; cut and truncate end it half way.
func (c *conn) sendBody(x *exchange, body []byte) (int, bool, error) {
	if x.sc.Empty {
		body = nil
	}
	if x.sc.Cut != "" || x.sc.Truncate {
		x.outcome = Broken
	}
	switch x.sc.Wrong {
	case "html":
		return c.sendPage(x)
	case "text":
		body, x.outcome = []byte("upstream connect error or disconnect/reset before headers"), Broken
	case "half":
		body, x.outcome = body[:len(body)/2], Broken
	case "array":
		body, x.outcome = append(append([]byte{'['}, body...), ']'), Broken
	case "bare":
		body, x.outcome = []byte("{}"), Broken
	}
	c.wire.begin(x.sc, 200, contentJSON, len(body))
	if x.sc.Stray.Set && x.sc.Stray.N == 0 {
		c.wire.behind = strayAnswer()
	}
	keep, err := c.wire.body(body)
	return 200, keep, err
}

// reply answers with a whole body.
func (c *conn) reply(sc *Scenario, status int, content string, body []byte) (int, bool, error) {
	c.wire.begin(sc, status, content, len(body))
	keep, err := c.wire.body(body)
	return status, keep, err
}

// refusal is the scenario of an answer that refuses: it is not broken off.
func (s *Scenario) refusal() *Scenario {
	whole := *s
	whole.Cut, whole.Truncate = "", false
	return &whole
}

// refuse answers with an error in the endpoint's own shape.
func (c *conn) refuse(x *exchange, anthropic bool, status int, f failure) (int, bool, error) {
	x.outcome = Refused
	x.tally = Tally{}
	content, body := contentJSON, f.openai()
	switch {
	case x.cloud == "azure" && f.code == codePolicy:
		body = azureFiltered()
	case anthropic:
		body = f.anthropic(status)
	case x.google:
		status, body = f.google(status)
	case x.sc.HTML || (status == 502 && f.kind == ""):
		content = contentHTML
		title := strconv.Itoa(status) + " " + reason(status)
		body = []byte("<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
			"</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n")
	}
	return c.reply(x.sc.refusal(), status, content, body)
}

func (c *conn) modelList() []byte {
	out := []byte(`{"object":"list","data":[`)
	for i, id := range c.srv.options.Models {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"id":`...)
		out = appendString(out, id)
		out = append(out, `,"object":"model","created":1700000000,"owned_by":"simulated"}`...)
	}
	return append(out, "]}"...)
}
