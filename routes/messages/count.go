package messages

import (
	"bytes"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"farebox/billing"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	form "farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

// byCounts are the limits of counting: it costs nothing, but time of this machine.
var byCounts = &routes.RateClass{
	Name: "count-tokens",
	Rate: func(cfg *config.Config) (*config.Rate, bool) { return &countRate, *cfg.Compat.Messages },
}

var countRate = config.Rate{RPM: 600}

// chatShape is the Shape of the chat body that is counted. It has the members that all
// chat bodies have, whose ids are the same under every config.
var chatShape = dialect.ChatShape("", nil, nil)

// count answers POST /messages/count_tokens: as an upstream of the model counts that
// does so for nothing, else by an estimate with the model's tokenizer, as the prompt is
// held before it is sent.
func (ca *Capability) count(call *routes.Call) *routes.Error {
	reported, e := ca.read(call)
	if e != nil {
		return e
	}
	if e := chooseModel(call, reported.Issues); e != nil {
		return e
	}
	if call.Model.Chat.Enclave != nil {
		return routes.Unsupported("model", "Models that run in an enclave are not served here; use "+routes.Prefix+
			"/chat/completions.")
	}
	if d := call.Count(byCounts, 1); d.Code != billing.Admitted {
		return call.Overrun(byCounts, &d, call.Row.Path)
	}
	var doc scan.Document
	if err := doc.Skim(reported.Body, chatShape); err != nil {
		return routes.InvalidBody("", err.Error())
	}
	c := dialect.Chat{Body: reported.Body, Doc: &doc, Model: call.Model, Choices: 1, Form: reported.Form, Told: call.Body,
		ToldDoc: &call.Doc}
	if prompt := call.Config().SystemPrompt; prompt != "" {
		c.SystemPrompt = routes.ViewBytes(prompt)
	}
	if n, ok := ca.exactly(call, &c); ok {
		return answerCount(call, n)
	}
	n := dialect.CountPrompt(&c)
	n += countRaw(call, c.Raw(doc.TopIndex(dialect.ChatTools)))
	messages := doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; messages >= 0 && m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		n += countRaw(call, c.Raw(doc.Member(m, dialect.MessageToolCalls)))
	}
	return answerCount(call, n)
}

func answerCount(call *routes.Call, n int64) *routes.Error {
	return call.WriteJSON(append(strconv.AppendInt([]byte(`{"input_tokens":`), n, 10), '}'))
}

const (
	// maxExactly is the largest prompt that an upstream is sent for nothing.
	maxExactly = 1 << 20
	// exactlyWithin is how long the upstream may take; the estimate follows.
	exactlyWithin = 3 * time.Second
	maxCountBody  = 4 << 10
)

// exactly has the first upstream of the model count that speaks Messages itself. Its health does
// not change by that: the estimate answers failures.
func (ca *Capability) exactly(call *routes.Call, c *dialect.Chat) (n int64, ok bool) {
	if len(c.Told) > maxExactly || linked(c) {
		return 0, false
	}
	for _, t := range call.Model.Targets {
		counter, ok := t.Upstream.Natives[form.Kind].(dialect.Counter)
		if !ok {
			continue
		}
		r := proxy.Request{ID: call.ID[:]}
		var s dialect.Scratch
		if counter.Count(&r, c, t, &s) != nil {
			return 0, false
		}
		x := ca.exchanges.Get().(*proxy.Exchange)
		defer func() {
			x.Close()
			x.Reset()
			ca.exchanges.Put(x)
		}()
		res := call.Proxy().Ask(call.Ctx, x, exactlyWithin, t.Upstream.Proxy, &r)
		if res.Cause != proxy.None || res.Status != 200 {
			return 0, false
		}
		body, cause, err := x.ReadAll(nil, maxCountBody)
		if cause != proxy.None || err != nil {
			return 0, false
		}
		return counter.Counted(body)
	}
	return 0, false
}

// linked says that something in the prompt is a link, which an upstream that counts might follow.
func linked(c *dialect.Chat) bool {
	fields := c.Doc.Fields
	for i := range fields {
		switch fields[i].Name {
		case dialect.PartImage, dialect.PartFile:
			if fields[i].Kind != scan.Object || fields[i].Elem >= 0 {
				continue
			}
			link := c.Text(c.Doc.Member(int32(i), dialect.LinkURL))
			if len(link) > 0 && !bytes.HasPrefix(link, []byte("data:")) {
				return true
			}
		}
	}
	return false
}

// mostCounted is how much of a piece of JSON is counted; the rest has as many tokens a
// byte.
const mostCounted = 64 << 10

func countRaw(call *routes.Call, raw []byte) int64 {
	part := raw[:min(len(raw), mostCounted)]
	if len(part) == 0 {
		return 0
	}
	n := dialect.CountTokens(call.Model.Tokenizer, part)
	return n * int64(len(raw)) / int64(len(part))
}

// chooseModel finds the model that is asked for.
func chooseModel(call *routes.Call, issues []routes.Issue) *routes.Error {
	name := []byte{}
	if i := call.Doc.TopIndex(form.TopModel); i >= 0 && call.Doc.Fields[i].Kind == scan.String {
		raw := call.Doc.Fields[i].Raw(call.Body)
		if name = raw[1 : len(raw)-1]; bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(gjson.ParseBytes(raw).Str)
		}
	}
	name, _ = providers.SplitSuffix(name)
	model, match := call.Catalog().Resolve(name, "text")
	return call.UseModel(name, "text", model, match, issues)
}
