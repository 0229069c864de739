package clients

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"farebox/tests/rig"
)

// openai-go works with the gateway as with OpenAI. It is the strictest of the
// three about error bodies: it decodes `error` into a struct.
func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	c := startClients(t)
	g := &goClient{clients: c, Client: c.openAI(c.rich), model: "sim-chat"}
	second := &goClient{clients: c, Client: c.openAI(c.rich), model: "sim-claude"}

	for _, g := range []*goClient{g, second} {
		t.Run(g.model, func(t *testing.T) {
			t.Run("answers in one piece", g.answers)
			t.Run("streams chunks as they are made", g.streams)
			t.Run("shows usage unless turned off", g.usage)
			t.Run("calls a tool and takes its result", g.tools)
			t.Run("streams tool calls", g.streamedTools)
			t.Run("answers with JSON that fits a schema", g.schema)
			t.Run("takes an image", g.image)
		})
	}
	t.Run("gives n choices", g.choices)
	t.Run("embeds", g.embeds)
	t.Run("lists models", g.lists)
	t.Run("gives typed errors", g.errors)
	t.Run("limits the rate", g.limited)
	t.Run("answers many at once", g.together)
	c.recount(t) // all answers so far were whole: to the token

	for _, g := range []*goClient{g, second} {
		t.Run(g.model+" fails", func(t *testing.T) {
			t.Run("ends a stream that the client closes", g.close)
			t.Run("ends a stream whose context is cancelled", g.cancel)
			t.Run("reports a failure in mid-stream", g.midStream)
			t.Run("hides an upstream's failure", g.upstreamFails)
		})
	}
	c.recount(t)
}

type goClient struct {
	*clients
	openai.Client
	model string
}

func (c *clients) openAI(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(c.URL), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithRequestTimeout(rig.CallLimit))
}

// ask is a chat request with one user message; the upstream carries out the scenario.
func (g *goClient) ask(text, scenario string) openai.ChatCompletionNewParams {
	if scenario != "" {
		text += " [[sim " + scenario + "]]"
	}
	return openai.ChatCompletionNewParams{
		Model: g.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func (g *goClient) complete(t *testing.T, params openai.ChatCompletionNewParams) *openai.ChatCompletion {
	t.Helper()
	answer, err := g.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatalf("cannot complete: %v%s", err, detailOf(err))
	}
	return answer
}

// collect reads a stream to its end and gives the accumulated answer and the chunks.
func (g *goClient) collect(t *testing.T, params openai.ChatCompletionNewParams) (openai.ChatCompletion,
	[]openai.ChatCompletionChunk) {
	t.Helper()
	stream := g.Chat.Completions.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	var whole openai.ChatCompletionAccumulator
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		chunks = append(chunks, stream.Current())
		if !whole.AddChunk(stream.Current()) {
			t.Fatalf("chunk %d does not fit to those before it: %s", len(chunks), stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("the stream failed: %v%s", err, detailOf(err))
	}
	return whole.ChatCompletion, chunks
}

func (g *goClient) answers(t *testing.T) {
	before := time.Now().Unix()
	answer := g.complete(t, g.ask("Say something.", "tokens=12"))
	if !strings.HasPrefix(answer.ID, "chatcmpl-") || answer.Model != g.model || answer.Created < before-1 ||
		answer.Created > before+60 {
		t.Errorf("id %q, model %q, created %d", answer.ID, answer.Model, answer.Created)
	}
	if len(answer.Choices) != 1 || answer.Choices[0].FinishReason != "stop" ||
		len(strings.Fields(answer.Choices[0].Message.Content)) != 12 {
		t.Errorf("choices: %+v", answer.Choices)
	}
	checkUsage(t, answer.Usage, 12)

	params := g.ask("Say a lot.", "")
	params.MaxCompletionTokens = openai.Int(7)
	answer = g.complete(t, params)
	if reason := answer.Choices[0].FinishReason; reason != "length" {
		t.Errorf("finish_reason %q at the cap", reason)
	}
	checkUsage(t, answer.Usage, 7)
}

func (g *goClient) streams(t *testing.T) {
	stream := g.Chat.Completions.NewStreaming(t.Context(), g.ask("Say something.", "tokens=20 gap_ms=20"))
	defer func() { _ = stream.Close() }()
	var first, last time.Time
	var text strings.Builder
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		if last = time.Now(); first.IsZero() {
			first = last
		}
		chunk := stream.Current()
		chunks = append(chunks, chunk)
		if len(chunk.Choices) > 0 {
			text.WriteString(chunk.Choices[0].Delta.Content)
		}
		if chunk.ID != chunks[0].ID || chunk.Model != g.model || chunk.Created != chunks[0].Created {
			t.Errorf("chunk %d is of another answer: %s", len(chunks), chunk.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("the stream failed: %v%s", err, detailOf(err))
	}
	if spread := last.Sub(first); spread < 150*time.Millisecond {
		t.Errorf("20 chunks made 20 ms apart arrived within %s: they were held back", spread)
	}
	if n := len(strings.Fields(text.String())); n != 20 {
		t.Errorf("%d words arrived: %s", n, text.String())
	}
	if end := chunks[len(chunks)-1]; len(end.Choices) != 0 {
		t.Errorf("the last chunk is not the usage: %s", end.RawJSON())
	} else {
		checkUsage(t, end.Usage, 20)
	}
}

func (g *goClient) usage(t *testing.T) {
	for _, test := range []struct {
		options openai.ChatCompletionStreamOptionsParam
		shown   int
	}{
		{openai.ChatCompletionStreamOptionsParam{}, 1},
		{openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}, 1},
		{openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(false)}, 0},
	} {
		params := g.ask("Say something.", "tokens=5")
		params.StreamOptions = test.options
		_, chunks := g.collect(t, params)
		shown := 0
		for _, chunk := range chunks {
			if chunk.Usage.TotalTokens > 0 {
				shown++
			}
		}
		if shown != test.shown {
			t.Errorf("include_usage %v: usage in %d chunks, expected %d", test.options.IncludeUsage, shown, test.shown)
		}
	}
}

func function(name string, properties map[string]any) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: name, Description: openai.String("What the name says"),
		Parameters: shared.FunctionParameters{"type": "object", "properties": properties},
	})
}

func twoTools() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{
		function("get_weather", map[string]any{"city": map[string]any{"type": "string"},
			"days": map[string]any{"type": "integer"}}),
		function("get_time", map[string]any{"zone": map[string]any{"type": "string"}}),
	}
}

func (g *goClient) tools(t *testing.T) {
	params := g.ask("Weather in Oslo?", "")
	params.Tools = twoTools()
	params.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(
		openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_weather"})
	answer := g.complete(t, params)
	message := answer.Choices[0].Message
	if answer.Choices[0].FinishReason != "tool_calls" || len(message.ToolCalls) != 1 ||
		message.ToolCalls[0].Function.Name != "get_weather" {
		t.Fatalf("no call of get_weather: %s", answer.RawJSON())
	}
	var args struct {
		City string
		Days int
	}
	if err := json.Unmarshal([]byte(message.ToolCalls[0].Function.Arguments), &args); err != nil || args.City == "" ||
		args.Days == 0 {
		t.Errorf("arguments %s: %v", message.ToolCalls[0].Function.Arguments, err)
	}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{}
	params.Messages = append(params.Messages, message.ToParam(),
		openai.ToolMessage(`{"sky":"clear"}`, message.ToolCalls[0].ID))
	if answer = g.complete(t, params); answer.Choices[0].FinishReason != "stop" ||
		answer.Choices[0].Message.Content == "" {
		t.Errorf("no answer to the tool's result: %s", answer.RawJSON())
	}
}

func (g *goClient) streamedTools(t *testing.T) {
	params := g.ask("Weather and time?", "tool=all")
	params.Tools = twoTools()
	answer, chunks := g.collect(t, params)
	if len(answer.Choices) != 1 || answer.Choices[0].FinishReason != "tool_calls" ||
		len(answer.Choices[0].Message.ToolCalls) != 2 {
		t.Fatalf("choices: %+v", answer.Choices)
	}
	for i, want := range []struct {
		name string
		args []string
	}{{"get_weather", []string{"city", "days"}}, {"get_time", []string{"zone"}}} {
		call := answer.Choices[0].Message.ToolCalls[i]
		var args map[string]any
		if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil ||
			call.Function.Name != want.name || call.ID == "" || len(args) != len(want.args) {
			t.Errorf("call %d is %s %q(%s): %v", i, call.ID, call.Function.Name, call.Function.Arguments, err)
		}
	}
	if len(chunks) < 8 {
		t.Errorf("the arguments came in %d chunks", len(chunks))
	}
	if answer.Usage.CompletionTokens == 0 {
		t.Error("no usage")
	}
}

func (g *goClient) schema(t *testing.T) {
	params := g.ask("Report.", "")
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "report", Strict: openai.Bool(true),
				Schema: map[string]any{
					"type": "object", "required": []string{"title", "score"}, "additionalProperties": false,
					"properties": map[string]any{"title": map[string]any{"type": "string"},
						"score": map[string]any{"type": "integer"}},
				}},
		}}
	var report struct {
		Title string
		Score int
	}
	content := g.complete(t, params).Choices[0].Message.Content
	if err := json.Unmarshal([]byte(content), &report); err != nil || report.Title == "" || report.Score == 0 {
		t.Errorf("%s does not fit the schema: %v", content, err)
	}
}

func (g *goClient) image(t *testing.T) {
	params := g.ask("", "")
	params.Messages[0] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart("What is this? [[sim tokens=6]]"),
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: picture}),
	})
	checkUsage(t, g.complete(t, params).Usage, 6)
}

// picture has 64 x 64 black pixels, the least that the interface allows.
const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC"

func (g *goClient) close(t *testing.T) {
	stream := g.Chat.Completions.NewStreaming(t.Context(), g.ask("Say a lot.", "tokens=500 gap_ms=20"))
	for range 4 {
		if !stream.Next() {
			t.Fatalf("the stream ended early: %v", stream.Err())
		}
	}
	if err := stream.Close(); err != nil {
		t.Errorf("cannot close the stream: %v", err)
	}
}

func (g *goClient) cancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := g.Chat.Completions.NewStreaming(ctx, g.ask("Say a lot.", "tokens=500 gap_ms=20"))
	defer func() { _ = stream.Close() }()
	n := 0
	for stream.Next() {
		if n++; n == 4 {
			cancel()
		}
	}
	if !errors.Is(stream.Err(), context.Canceled) || n > 50 {
		t.Errorf("%d chunks, then %v", n, stream.Err())
	}

	soon, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := g.Chat.Completions.New(soon, g.ask("Wait.", "delay_ms=5000")); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("an abandoned request gave %v", err)
	}
}

func (g *goClient) midStream(t *testing.T) {
	for _, fault := range []string{"error_event=1 error_after=5", "cut=fin cut_after=5"} {
		stream := g.Chat.Completions.NewStreaming(t.Context(), g.ask("Say a lot.", "tokens=40 gap_ms=5 "+fault))
		var text strings.Builder
		for stream.Next() {
			if choices := stream.Current().Choices; len(choices) > 0 {
				text.WriteString(choices[0].Delta.Content)
			}
		}
		_ = stream.Close()
		var failed *ssestream.StreamError
		if !errors.As(stream.Err(), &failed) {
			t.Errorf("%s: the stream ended with %v", fault, stream.Err())
			continue
		}
		var body struct {
			Error struct{ Code, Type, Message string }
		}
		if err := json.Unmarshal(failed.Event.Data, &body); err != nil || body.Error.Message == "" ||
			body.Error.Type == "" ||
			(body.Error.Code != "model_overloaded" && body.Error.Code != "upstream_error") {
			t.Errorf("%s: error event %s: %v", fault, failed.Event.Data, err)
		}
		discreet(t, string(failed.Event.Data))
		if n := len(strings.Fields(text.String())); n != 5 {
			t.Errorf("%s: %d words before the failure", fault, n)
		}
	}
}

func (g *goClient) upstreamFails(t *testing.T) {
	for _, status := range []string{"401", "403", "500", "502", "503"} {
		_, err := g.Chat.Completions.New(t.Context(), g.ask("Hm.", "status="+status))
		if failed := refusal(t, err, 0); failed != nil && failed.StatusCode < 500 {
			t.Errorf("upstream %s became %d: %s", status, failed.StatusCode, failed.RawJSON())
		}
	}
	_, err := g.Chat.Completions.New(t.Context(), g.ask("Hm.", "status=429 retry_after=7"))
	if failed := refusal(t, err, 429); failed != nil && failed.Response.Header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After %q of an overloaded upstream, expected 7", failed.Response.Header.Get("Retry-After"))
	}
}

func (g *goClient) choices(t *testing.T) {
	params := g.ask("Say something.", "tokens=6")
	params.N = openai.Int(3)
	answer := g.complete(t, params)
	if len(answer.Choices) != 3 || answer.Choices[2].Index != 2 {
		t.Errorf("choices: %+v", answer.Choices)
	}
	checkUsage(t, answer.Usage, 18)
	streamed, _ := g.collect(t, params)
	if len(streamed.Choices) != 3 {
		t.Errorf("%d streamed choices", len(streamed.Choices))
	}
	checkUsage(t, streamed.Usage, 18)
}

func (g *goClient) embeds(t *testing.T) {
	params := openai.EmbeddingNewParams{
		Model: "sim-embedding", Dimensions: openai.Int(32),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	}
	usual, err := g.Embeddings.New(t.Context(), params)
	if err != nil {
		t.Fatalf("cannot embed: %v%s", err, detailOf(err))
	}
	if len(usual.Data) != 2 || usual.Data[1].Index != 1 || len(usual.Data[1].Embedding) != 32 ||
		usual.Usage.PromptTokens != 2 || usual.Usage.TotalTokens != 2 {
		t.Fatalf("embeddings: %s", usual.RawJSON())
	}
	params.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
	var raw *http.Response
	if _, err := g.Embeddings.New(t.Context(), params, option.WithResponseBodyInto(&raw)); err != nil {
		t.Fatalf("cannot embed: %v%s", err, detailOf(err))
	}
	defer func() { _ = raw.Body.Close() }()
	var packed struct {
		Data []struct{ Embedding string }
	}
	if err := json.NewDecoder(raw.Body).Decode(&packed); err != nil || len(packed.Data) != 2 {
		t.Fatalf("cannot read base64 embeddings: %v", err)
	}
	data, err := base64.StdEncoding.DecodeString(packed.Data[1].Embedding)
	if err != nil || len(data) != 4*32 {
		t.Fatalf("%d bytes of base64, %v", len(data), err)
	}
	for i, want := range usual.Data[1].Embedding {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); got != float32(want) {
			t.Fatalf("number %d is %g in base64 and %g in JSON", i, got, want)
		}
	}
}

func (g *goClient) lists(t *testing.T) {
	found := map[string]bool{}
	pages := g.Models.ListAutoPaging(t.Context())
	for pages.Next() {
		found[pages.Current().ID] = true
	}
	if err := pages.Err(); err != nil {
		t.Fatalf("cannot list models: %v%s", err, detailOf(err))
	}
	if !found["sim-chat"] || !found["sim-claude"] || found["sim-embedding"] {
		t.Errorf("listed: %v", found)
	}
}

func (g *goClient) together(t *testing.T) {
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			n := int64(i%10 + 1)
			params := g.ask("Say something.", "delay_ms=30 tokens="+strconv.FormatInt(n, 10))
			answer, err := g.Chat.Completions.New(t.Context(), params)
			if err != nil {
				t.Errorf("call %d: %v%s", i, err, detailOf(err))
			} else if answer.Usage.CompletionTokens != n {
				t.Errorf("call %d got the answer of another: %d tokens, expected %d", i, answer.Usage.CompletionTokens,
					n)
			}
		})
	}
	all.Wait()
}

func checkUsage(t *testing.T, u openai.CompletionUsage, completion int64) {
	t.Helper()
	if u.PromptTokens <= 0 || u.CompletionTokens != completion || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %s, expected %d completion tokens", u.RawJSON(), completion)
	}
}
