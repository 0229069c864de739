package clients

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"farebox/tests/rig"
)

// anthropic-sdk-go works with the gateway as with Anthropic, whatever upstream is
// behind the model: sim-chat's speaks chat completions, sim-claude's speaks Messages.
func TestAnthropicGo(t *testing.T) {
	t.Parallel()
	c := startClients(t)
	both := []*claudeClient{
		{clients: c, Client: c.anthropic(c.rich), model: "sim-chat"},
		{clients: c, Client: c.anthropic(c.rich), model: "sim-claude"},
	}
	for _, g := range both {
		t.Run(g.model, func(t *testing.T) {
			t.Run("answers in one piece", g.answers)
			t.Run("streams events as they are made", g.streams)
			t.Run("thinks", g.thinks)
			t.Run("calls a tool and takes its result", g.tools)
			t.Run("streams calls of tools", g.streamedTools)
			t.Run("answers with JSON that fits a schema", g.schema)
			t.Run("takes a picture", g.image)
			t.Run("counts tokens", g.counts)
		})
	}
	t.Run("takes the key in either header", both[0].keys)
	t.Run("gives typed errors", both[0].errors)
	t.Run("refuses members that reach into the operator's account", both[1].refuses)
	c.recount(t) // all answers so far were whole: to the token
	for _, g := range both {
		t.Run(g.model+" reports a failure in mid-stream", g.midStream)
		t.Run(g.model+" hides an upstream's failure", g.upstreamFails)
	}
	c.recount(t)
}

type claudeClient struct {
	*clients
	anthropic.Client
	model string
}

func (c *clients) anthropic(key string, more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(c.URL, "/v1")), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithRequestTimeout(rig.CallLimit),
	}, more...)...)
}

// ask is a request with one user message; the upstream carries out the scenario.
func (g *claudeClient) ask(text, scenario string) anthropic.MessageNewParams {
	if scenario != "" {
		text += " [[sim " + scenario + "]]"
	}
	return anthropic.MessageNewParams{
		Model: g.model, MaxTokens: 4000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

func (g *claudeClient) complete(t *testing.T, params anthropic.MessageNewParams) *anthropic.Message {
	t.Helper()
	answer, err := g.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatalf("cannot complete: %v", err)
	}
	return answer
}

// collect reads a stream to its end.
func (g *claudeClient) collect(t *testing.T, params anthropic.MessageNewParams) (m anthropic.Message, events int) {
	t.Helper()
	stream := g.Messages.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	for ; stream.Next(); events++ {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Fatalf("event %d does not fit to those before it: %v", events, err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("the stream failed: %v", err)
	}
	return m, events
}

func (g *claudeClient) check(t *testing.T, m *anthropic.Message, words int) {
	t.Helper()
	last := len(m.Content) - 1
	if last < 0 || !strings.HasPrefix(m.ID, "msg_") || m.Model != g.model || m.StopReason != "end_turn" ||
		len(strings.Fields(m.Content[last].Text)) != words || m.Usage.InputTokens == 0 || m.Usage.OutputTokens == 0 {
		t.Errorf("%s", m.RawJSON())
	}
}

func (g *claudeClient) answers(t *testing.T) {
	g.check(t, g.complete(t, g.ask("Say something.", "tokens=12")), 12)
	system := g.ask("Say something.", "tokens=3")
	system.System = []anthropic.TextBlockParam{{Text: "Be brief.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	system.StopSequences = []string{"END"}
	system.Metadata.UserID = anthropic.String("user-1")
	g.check(t, g.complete(t, system), 3)
}

func (g *claudeClient) streams(t *testing.T) {
	m, events := g.collect(t, g.ask("Say something.", "tokens=40"))
	if g.check(t, &m, 40); events < 40 {
		t.Errorf("%d events", events)
	}
}

func (g *claudeClient) thinks(t *testing.T) {
	p := g.ask("Say something.", "tokens=25 reasoning=20")
	p.Thinking = anthropic.ThinkingConfigParamOfEnabled(2000)
	whole := g.complete(t, p)
	streamed, _ := g.collect(t, p)
	for _, m := range []*anthropic.Message{whole, &streamed} {
		if g.check(t, m, 5); m.Content[0].Type != "thinking" || len(strings.Fields(m.Content[0].Thinking)) < 10 {
			t.Errorf("%s", m.RawJSON())
		}
		p.Messages = append(p.Messages, m.ToParam(),
			anthropic.NewUserMessage(anthropic.NewTextBlock("Go on. [[sim tokens=2]]")))
	}
	g.complete(t, p) // the thoughts go back as they came
}

var weather = anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
	Name: "get_weather", Description: anthropic.String("The weather of a city."),
	InputSchema: anthropic.ToolInputSchemaParam{
		Properties: map[string]any{"city": map[string]string{"type": "string"}}, Required: []string{"city"},
	},
}}

func (g *claudeClient) tools(t *testing.T) {
	p := g.ask("How is the weather?", "tool=get_weather")
	p.Tools = []anthropic.ToolUnionParam{weather}
	p.ToolChoice = anthropic.ToolChoiceParamOfTool("get_weather")
	m := g.complete(t, p)
	g.answer(t, p, m)
}

// answer gives the results of the calls in an answer, and asks again.
func (g *claudeClient) answer(t *testing.T, p anthropic.MessageNewParams, m *anthropic.Message) {
	t.Helper()
	var results []anthropic.ContentBlockParamUnion
	for _, b := range m.Content {
		if use, ok := b.AsAny().(anthropic.ToolUseBlock); ok {
			var input map[string]any
			if err := json.Unmarshal(use.Input, &input); err != nil || use.Name != "get_weather" || use.ID == "" {
				t.Errorf("%s: %v", m.RawJSON(), err)
			}
			results = append(results, anthropic.NewToolResultBlock(use.ID, "Rain.", false))
		}
	}
	if len(results) == 0 || m.StopReason != "tool_use" {
		t.Fatalf("no call: %s", m.RawJSON())
	}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{}
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(append(results,
		anthropic.NewTextBlock("So? [[sim tokens=4]]"))...))
	g.check(t, g.complete(t, p), 4)
}

func (g *claudeClient) streamedTools(t *testing.T) {
	p := g.ask("How is the weather?", "tool=get_weather")
	p.Tools = []anthropic.ToolUnionParam{weather}
	m, _ := g.collect(t, p)
	g.answer(t, p, &m)
}

func (g *claudeClient) schema(t *testing.T) {
	p := g.ask("Say something.", "")
	p.OutputConfig.Format.Schema = map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": map[string]any{"name": map[string]any{"type": "string"}},
	}
	m := g.complete(t, p)
	var v struct{ Name *string }
	if err := json.Unmarshal([]byte(m.Content[len(m.Content)-1].Text), &v); err != nil || v.Name == nil {
		t.Errorf("%s: %v", m.RawJSON(), err)
	}
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

func (g *claudeClient) image(t *testing.T) {
	p := g.ask("What is it?", "tokens=3")
	p.Messages[0].Content = append(p.Messages[0].Content, anthropic.NewImageBlockBase64("image/png", pixel))
	g.check(t, g.complete(t, p), 3)
}

func (g *claudeClient) counts(t *testing.T) {
	count := func(text string, tools ...anthropic.MessageCountTokensToolUnionParam) int64 {
		n, err := g.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: g.model, Tools: tools,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}})
		if err != nil {
			t.Fatal(err)
		}
		return n.InputTokens
	}
	few, many := count("Hello."), count(strings.Repeat("Hello. ", 100))
	tool := count("Hello.", anthropic.MessageCountTokensToolUnionParam{OfTool: weather.OfTool})
	if few < 3 || few > 30 || many < 190 || many > 260 || tool < few+20 {
		t.Errorf("%d, %d and %d tokens", few, many, tool)
	}
}

func (g *claudeClient) keys(t *testing.T) {
	p := g.ask("Say something.", "tokens=2")
	bearer := anthropic.NewClient(option.WithBaseURL(strings.TrimSuffix(g.URL, "/v1")), option.WithAuthToken(g.rich),
		option.WithMaxRetries(0))
	if _, err := bearer.Messages.New(t.Context(), p); err != nil {
		t.Errorf("as a bearer token: %v", err)
	}
	same := g.anthropic(g.rich, option.WithHeader("Authorization", "Bearer "+g.rich))
	if _, err := same.Messages.New(t.Context(), p); err != nil {
		t.Errorf("in both headers: %v", err)
	}
	other := g.anthropic(g.rich, option.WithHeader("Authorization", "Bearer "+g.poor))
	_, err := other.Messages.New(t.Context(), p)
	wants(t, err, http.StatusUnauthorized, "authentication_error")
	wrong := g.anthropic("sk-wrong")
	_, err = wrong.Messages.New(t.Context(), p)
	wants(t, err, http.StatusUnauthorized, "authentication_error")
}

// wants checks the kind of an error.
func wants(t *testing.T, err error, status int, kind string) {
	t.Helper()
	var e *anthropic.Error
	if !errors.As(err, &e) || e.StatusCode != status || string(e.Type()) != kind || e.RequestID == "" {
		t.Errorf("not a %d %s: %v", status, kind, err)
	}
}

func (g *claudeClient) errors(t *testing.T) {
	p := g.ask("Say something.", "tokens=2")
	poor := g.anthropic(g.poor)
	_, err := poor.Messages.New(t.Context(), p)
	wants(t, err, http.StatusPaymentRequired, "billing_error")
	unknown := p
	unknown.Model = "nothing"
	_, err = g.Messages.New(t.Context(), unknown)
	wants(t, err, http.StatusNotFound, "not_found_error")
	none := p
	none.MaxTokens = 0
	_, err = g.Messages.New(t.Context(), none)
	wants(t, err, http.StatusBadRequest, "invalid_request_error")
	loud := p
	loud.Temperature = anthropic.Float(3)
	_, err = g.Messages.New(t.Context(), loud)
	if wants(t, err, http.StatusBadRequest, "invalid_request_error"); !strings.Contains(err.Error(), "temperature") {
		t.Error(err)
	}
	limited := g.anthropic(g.tight)
	p.Model = "sim-scarce"
	for range 3 {
		_, err = limited.Messages.New(t.Context(), p)
	}
	wants(t, err, http.StatusTooManyRequests, "rate_limit_error")
}

func (g *claudeClient) refuses(t *testing.T) {
	for name, change := range map[string]func(*anthropic.MessageNewParams){
		"tools.0.type": func(p *anthropic.MessageNewParams) {
			p.Tools = []anthropic.ToolUnionParam{{OfCodeExecutionTool20250825: &anthropic.CodeExecutionTool20250825Param{}}}
		},
		"inference_geo": func(p *anthropic.MessageNewParams) { p.InferenceGeo = anthropic.String("us") },
		"speed":         func(p *anthropic.MessageNewParams) { p.Speed = anthropic.MessageNewParamsSpeedFast },
	} {
		p := g.ask("Say something.", "tokens=2")
		change(&p)
		_, err := g.Messages.New(t.Context(), p)
		if wants(t, err, http.StatusBadRequest, "invalid_request_error"); !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func (g *claudeClient) midStream(t *testing.T) {
	stream := g.Messages.NewStreaming(t.Context(), g.ask("Say something.", "tokens=30 error_event=true error_after=10"))
	defer func() { _ = stream.Close() }()
	n := 0
	for ; stream.Next(); n++ {
	}
	if err := stream.Err(); err == nil || n < 10 || !strings.Contains(err.Error(), "error") {
		t.Errorf("%d events, then %v", n, err)
	}
}

func (g *claudeClient) upstreamFails(t *testing.T) {
	_, err := g.Messages.New(t.Context(), g.ask("Say something.", "status=500"))
	wants(t, err, http.StatusInternalServerError, "api_error")
	_, err = g.Messages.New(t.Context(), g.ask("Say something.", "status=401"))
	wants(t, err, http.StatusServiceUnavailable, "overloaded_error")
}
