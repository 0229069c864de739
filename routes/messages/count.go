package messages

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/billing"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	form "farebox/providers/chat/messages"
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

// count answers POST /messages/count_tokens. What it says is an estimate with the
// model's tokenizer, as the prompt is held before it is sent.
func (of *Capability) count(call *routes.Call) *routes.Error {
	told, e := of.read(call)
	if e != nil {
		return e
	}
	if e := chooseModel(call, told.Issues); e != nil {
		return e
	}
	if d := call.Count(byCounts, 1); d.Code != billing.Admitted {
		return call.Overrun(byCounts, &d, call.Row.Path)
	}
	var doc scan.Document
	if err := doc.Skim(told.Body, chatShape); err != nil {
		return routes.InvalidBody("", err.Error())
	}
	c := dialect.Chat{Body: told.Body, Doc: &doc, Model: call.Model, Choices: 1}
	n := dialect.CountPrompt(&c)
	n += countRaw(call, c.Raw(doc.TopIndex(dialect.ChatTools)))
	messages := doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; messages >= 0 && m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		n += countRaw(call, c.Raw(doc.Member(m, dialect.MessageToolCalls)))
	}
	return call.WriteJSON(append(strconv.AppendInt([]byte(`{"input_tokens":`), n, 10), '}'))
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
	return call.UseModel(name, model, match, issues)
}
