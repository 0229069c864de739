package upstream_test

import (
	"context"
	"testing"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
)

// The official client decodes our answers, so its types vouch for the shapes.
func TestOfficialClientReadsEverything(t *testing.T) {
	s := strict.New(upstream.Options{Key: "sk-right"})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("sk-right"), option.WithMaxRetries(0))
	ctx := context.Background()
	params := openai.ChatCompletionNewParams{
		Model:               "sim-chat",
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		MaxCompletionTokens: openai.Int(12),
		StreamOptions:       openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	whole, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "sim-chat",
		Messages: params.Messages, MaxCompletionTokens: openai.Int(12)})
	if err != nil || whole.Usage.CompletionTokens != 12 {
		t.Fatalf("%v %+v", err, whole)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if stream.Err() != nil || acc.Usage.CompletionTokens != 12 || upstream.CountText(acc.Choices[0].Message.Content) != 12 {
		t.Errorf("%v %+v", stream.Err(), acc.Usage)
	}
	models, err := client.Models.List(ctx)
	if err != nil || len(models.Data) == 0 {
		t.Errorf("models: %v", err)
	}
	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: "sim-embedding", Dimensions: openai.Int(8),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "hello world"}},
	})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[0].Embedding) != 8 || vectors.Usage.PromptTokens != 3 {
		t.Errorf("embeddings: %v %+v", err, vectors)
	}
	wrong := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("sk-wrong-key"),
		option.WithMaxRetries(0))
	_, err = wrong.Models.List(ctx)
	if e, ok := err.(*openai.Error); !ok || e.StatusCode != 401 || e.Code != "invalid_api_key" {
		t.Errorf("wrong key: %v", err)
	}
}
