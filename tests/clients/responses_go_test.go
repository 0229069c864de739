package clients

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// openai-go works on /responses as with OpenAI, whatever upstream is behind the model.
func TestOpenAIGoOnResponses(t *testing.T) {
	t.Parallel()
	c := startClients(t)
	for _, model := range responsesModels {
		g := &responder{goClient: &goClient{clients: c, Client: c.openAI(c.rich), model: model}}
		t.Run(model, func(t *testing.T) {
			t.Run("answers in one piece", g.answers)
			t.Run("streams events as they are made", g.streams)
			t.Run("says that it is incomplete", g.incomplete)
			t.Run("calls functions and takes their results", g.functions)
			t.Run("takes its thoughts back", g.thinks)
			t.Run("answers with JSON that fits a schema", g.schema)
			t.Run("takes a picture", g.image)
			t.Run("gives typed errors", g.errors)
		})
	}
	c.recount(t) // all answers so far were whole: to the token
	for _, model := range responsesModels {
		g := &responder{goClient: &goClient{clients: c, Client: c.openAI(c.rich), model: model}}
		t.Run(model+" reports a failure in mid-stream", g.midStream)
	}
	c.recount(t)
}

type responder struct{ *goClient }

// asks is an input of one user message.
func asks(text, scenario string) responses.ResponseInputItemUnionParam {
	if scenario != "" {
		text += " [[sim " + scenario + "]]"
	}
	return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
}

func (g *responder) params(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: g.model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items}}
}

func (g *responder) new(t *testing.T, p responses.ResponseNewParams) *responses.Response {
	t.Helper()
	r, err := g.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatalf("cannot respond: %v%s", err, detailOf(err))
	}
	return r
}

// collect reads a stream to its end and returns the response of its last event.
func (g *responder) collect(t *testing.T, p responses.ResponseNewParams) (*responses.Response, string) {
	t.Helper()
	stream := g.Responses.NewStreaming(t.Context(), p)
	defer func() { _ = stream.Close() }()
	var last *responses.Response
	var text strings.Builder
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text.WriteString(e.Delta)
		case responses.ResponseCompletedEvent:
			last = &e.Response
		case responses.ResponseIncompleteEvent:
			last = &e.Response
		}
	}
	if err := stream.Err(); err != nil || last == nil {
		t.Fatalf("the stream ended with %v", err)
	}
	return last, text.String()
}

func (g *responder) check(t *testing.T, r *responses.Response, words int) {
	t.Helper()
	if !strings.HasPrefix(r.ID, "resp_") || r.Status != "completed" || r.Model != g.model ||
		len(strings.Fields(r.OutputText())) != words || r.Usage.InputTokens == 0 ||
		r.Usage.TotalTokens != r.Usage.InputTokens+r.Usage.OutputTokens {
		t.Errorf("%s", r.RawJSON())
	}
}

// back is a response's items as the input of the next one.
func back(r *responses.Response) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	for _, item := range r.Output {
		items = append(items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
	}
	return items
}

func (g *responder) answers(t *testing.T) {
	p := g.params(asks("Say something.", "tokens=12"))
	p.Instructions = openai.String("Be brief.")
	r := g.new(t, p)
	g.check(t, r, 12)
	g.check(t, g.new(t, g.params(append(back(r), asks("More.", "tokens=3"))...)), 3)
}

func (g *responder) streams(t *testing.T) {
	r, text := g.collect(t, g.params(asks("Say something.", "tokens=20")))
	if g.check(t, r, 20); r.OutputText() != text {
		t.Errorf("it said %q, and at last %q", text, r.OutputText())
	}
}

func (g *responder) incomplete(t *testing.T) {
	p := g.params(asks("Say a lot.", ""))
	p.MaxOutputTokens = openai.Int(16)
	streamed, _ := g.collect(t, p)
	for _, r := range []*responses.Response{g.new(t, p), streamed} {
		if r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" || r.Usage.OutputTokens != 16 {
			t.Errorf("%s", r.RawJSON())
		}
	}
}

func (g *responder) functions(t *testing.T) {
	input := asks("Weather and time?", "tool=all")
	p := g.params(input)
	for name, member := range map[string]string{"get_weather": "city", "get_time": "zone"} {
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: name, Strict: openai.Bool(false), Parameters: map[string]any{"type": "object",
				"properties": map[string]any{member: map[string]string{"type": "string"}}, "required": []string{member}},
		}})
	}
	streamed, _ := g.collect(t, p)
	for _, r := range []*responses.Response{g.new(t, p), streamed} {
		items := append([]responses.ResponseInputItemUnionParam{input}, back(r)...)
		calls := 0
		for _, item := range r.Output {
			call, ok := item.AsAny().(responses.ResponseFunctionToolCall)
			if !ok {
				continue
			}
			calls++
			var arguments map[string]string
			if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil || len(arguments) != 1 {
				t.Errorf("%s: %v", r.RawJSON(), err)
			}
			items = append(items, param.Override[responses.ResponseInputItemUnionParam](map[string]string{
				"type": "function_call_output", "call_id": call.CallID, "output": "clear",
			}))
		}
		if calls != 2 {
			t.Fatalf("%d calls: %s", calls, r.RawJSON())
		}
		p.Input.OfInputItemList = append(items, asks("So?", "tokens=4"))
		g.check(t, g.new(t, p), 4)
	}
}

func (g *responder) thinks(t *testing.T) {
	input := asks("Say something.", "tokens=25 reasoning=20")
	p := g.params(input)
	p.Reasoning = shared.ReasoningParam{Effort: "medium", Summary: "auto"}
	p.Include = []responses.ResponseIncludable{"reasoning.encrypted_content"}
	streamed, _ := g.collect(t, p)
	for _, r := range []*responses.Response{g.new(t, p), streamed} {
		if g.check(t, r, 5); r.Output[0].Type != "reasoning" || r.Usage.OutputTokensDetails.ReasoningTokens == 0 {
			t.Errorf("%s", r.RawJSON())
		}
		items := append([]responses.ResponseInputItemUnionParam{input}, back(r)...)
		g.check(t, g.new(t, g.params(append(items, asks("Go on.", "tokens=2"))...)), 2)
	}
}

func (g *responder) schema(t *testing.T) {
	p := g.params(asks("Say something.", ""))
	p.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("named", map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": map[string]any{"name": map[string]string{"type": "string"}},
	})
	var v struct{ Name *string }
	if r := g.new(t, p); json.Unmarshal([]byte(r.OutputText()), &v) != nil || v.Name == nil {
		t.Errorf("%s", r.RawJSON())
	}
}

func (g *responder) image(t *testing.T) {
	picture := responses.ResponseInputContentParamOfInputImage("low")
	picture.OfInputImage.ImageURL = openai.String("data:image/png;base64," + pixel)
	g.check(t, g.new(t, g.params(responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
		responses.ResponseInputContentParamOfInputText("What is it? [[sim tokens=3]]"), picture,
	}, responses.EasyInputMessageRoleUser))), 3)
}

func (g *responder) errors(t *testing.T) {
	f := func(key string, status int, change func(*responses.ResponseNewParams)) {
		t.Helper()
		p := g.params(asks("Hm.", "tokens=2"))
		change(&p)
		client := g.openAI(key)
		_, err := client.Responses.New(context.Background(), p)
		refusal(t, err, status)
	}
	same := func(*responses.ResponseNewParams) {}
	f(g.rich, 400, func(p *responses.ResponseNewParams) { p.Temperature = openai.Float(3) })
	f("wrong", 401, same)
	f(g.poor, 402, same)
	f(g.rich, 404, func(p *responses.ResponseNewParams) { p.Model = "nothing" })
	f(g.rich, 500, func(p *responses.ResponseNewParams) {
		p.Input.OfInputItemList[0] = asks("Hm.", "status=500")
	})
}

func (g *responder) midStream(t *testing.T) {
	p := g.params(asks("Say a lot.", "tokens=30 error_event=1 error_after=10"))
	stream := g.Responses.NewStreaming(t.Context(), p)
	defer func() { _ = stream.Close() }()
	deltas, failed := 0, false
	for stream.Next() {
		switch stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			deltas++
		case responses.ResponseFailedEvent, responses.ResponseErrorEvent:
			failed = true
		case responses.ResponseCompletedEvent:
			t.Error("it was completed")
		}
	}
	if deltas < 5 || !failed && stream.Err() == nil {
		t.Errorf("%d deltas, then %v", deltas, stream.Err())
	}
}
