// Package upstream_test has the vendors' own packages use the simulated upstreams.
package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genai"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
)

// google is Google's own client at a simulated server.
func google(t *testing.T, o upstream.Options, key string) (*genai.Client, *strict.Server) {
	t.Helper()
	s := strict.New(o)
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI,
		HTTPClient: &http.Client{}, HTTPOptions: genai.HTTPOptions{BaseURL: strings.TrimSuffix(url, "v1"), APIVersion: "v1beta"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// The vendor's own parser reads the simulated server's answers, and the server accepts
// requests of the vendor's client.
func TestGooglesClientReadsTheSimulatedServer(t *testing.T) {
	t.Parallel()
	c, s := google(t, upstream.Options{Key: "k"}, "k")
	ctx := context.Background()
	ask := func(directive string) []*genai.Content {
		return []*genai.Content{genai.NewContentFromText("[[sim "+directive+"]] say it", genai.RoleUser)}
	}
	config := &genai.GenerateContentConfig{
		MaxOutputTokens: 40, SystemInstruction: genai.NewContentFromText("be kind", genai.RoleUser),
		ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: genai.ThinkingLevelLow},
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "look",
			ParametersJsonSchema: json.RawMessage(`{"type":"object","properties":{"where":{"type":"string"}}}`)}}}},
	}
	a, err := c.Models.GenerateContent(ctx, "gemini-3-flash-preview", ask("cached=3"), config)
	if err != nil {
		t.Fatal(err)
	}
	u := a.UsageMetadata
	if a.ResponseID == "" || u.ThoughtsTokenCount != 10 || u.CandidatesTokenCount != 30 || u.CachedContentTokenCount != 3 ||
		u.TotalTokenCount != u.PromptTokenCount+40 || a.Candidates[0].FinishReason != genai.FinishReasonMaxTokens {
		t.Errorf("%+v, %+v", a, u)
	}
	if p := a.Candidates[0].Content.Parts; len(p) != 2 || !p[0].Thought || len(p[1].ThoughtSignature) == 0 {
		t.Errorf("%+v", p)
	}
	said, events := "", 0
	for e, err := range c.Models.GenerateContentStream(ctx, "gemini-3-flash-preview", ask("tool=1 comments=0"), config) {
		if err != nil {
			t.Fatal(err)
		}
		events++
		for _, call := range e.FunctionCalls() {
			said += call.Name + call.ID
			if len(e.Candidates[0].Content.Parts[0].ThoughtSignature) == 0 || call.Args["where"] != "river" {
				t.Errorf("%+v", e.Candidates[0].Content.Parts[0])
			}
		}
		u = e.UsageMetadata
	}
	if events < 3 || !strings.HasPrefix(said, "look") || len(said) < 8 || u.CandidatesTokenCount == 0 {
		t.Errorf("%d events, %q, %+v", events, said, u)
	}
	stats := s.Stats()
	if n := stats.Endpoints["generate"]; n.CompletionTokens != 40 || n.ReasoningTokens != 10 {
		t.Errorf("%+v", stats.Endpoints)
	}
	blocked, err := c.Models.GenerateContent(ctx, "gemini-2.5-pro", ask("kind=policy"), nil)
	if err != nil || blocked.PromptFeedback.BlockReason != genai.BlockedReasonProhibitedContent || len(blocked.Candidates) > 0 {
		t.Errorf("%+v %v", blocked, err)
	}
	two, err := c.Models.GenerateContent(ctx, "gemini-2.5-pro", ask("tokens=4"), &genai.GenerateContentConfig{
		CandidateCount: 2, ResponseLogprobs: true})
	if err != nil || len(two.Candidates) != 2 || two.Candidates[1].Index != 1 ||
		len(two.Candidates[0].LogprobsResult.ChosenCandidates) != 4 {
		t.Errorf("%+v %v", two, err)
	}
}

// The whole conversation of a tool call, with the signature that came with it.
func TestGooglesClientAnswersCalls(t *testing.T) {
	t.Parallel()
	c, _ := google(t, upstream.Options{}, "k")
	ctx := context.Background()
	config := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "look"}}}}}
	history := []*genai.Content{genai.NewContentFromText("[[sim tool=1]] look", genai.RoleUser)}
	a, err := c.Models.GenerateContent(ctx, "gemini-3-pro-preview", history, config)
	if err != nil {
		t.Fatal(err)
	}
	call := a.FunctionCalls()[0]
	history = append(history, a.Candidates[0].Content, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{
		FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"output": "x"}}}}})
	if _, err := c.Models.GenerateContent(ctx, "gemini-3-pro-preview", history, config); err != nil {
		t.Error(err)
	}
	history[1].Parts[0].ThoughtSignature = nil
	var e genai.APIError
	if _, err := c.Models.GenerateContent(ctx, "gemini-3-pro-preview", history, config); !errors.As(err, &e) ||
		e.Code != 400 || !strings.Contains(e.Message, "thought_signature") {
		t.Errorf("a call without its signature: %v", err)
	}
}

func TestGoogleErrorsAreInGooglesForm(t *testing.T) {
	t.Parallel()
	c, _ := google(t, upstream.Options{Key: "right"}, "wrong")
	ctx := context.Background()
	_, err := c.Models.GenerateContent(ctx, "gemini-2.5-pro", genai.Text("hi"), nil)
	var e genai.APIError
	if !errors.As(err, &e) || e.Code != 400 || e.Status != "INVALID_ARGUMENT" || e.Details[0]["reason"] != "API_KEY_INVALID" {
		t.Errorf("%+v", err)
	}
	c, _ = google(t, upstream.Options{}, "k")
	f := func(model, directive string, config *genai.GenerateContentConfig, code int, status, text string) {
		t.Helper()
		_, err := c.Models.GenerateContent(ctx, model, genai.Text("[[sim "+directive+"]] hi"), config)
		if !errors.As(err, &e) || e.Code != code || e.Status != status || !strings.Contains(e.Message, text) {
			t.Errorf("%s %s: %+v", model, directive, err)
		}
	}
	f("gemini-2.5-pro", "status=429", nil, 429, "RESOURCE_EXHAUSTED", "")
	f("gemini-2.5-pro", "status=503", nil, 503, "UNAVAILABLE", "")
	budget := int32(0)
	f("gemini-2.5-pro", "id=x", &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: &budget}},
		400, "INVALID_ARGUMENT", "thinking budget 0")
	f("gemini-2.5-pro", "id=x", &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingLevel: "LOW"}},
		400, "INVALID_ARGUMENT", "Thinking level")
	f("gemini-3.8-flash", "id=x", &genai.GenerateContentConfig{Temperature: genai.Ptr[float32](1)}, 400, "INVALID_ARGUMENT",
		"temperature")
	f("gemini-3-pro-preview", "id=x", &genai.GenerateContentConfig{CandidateCount: 2}, 400, "INVALID_ARGUMENT", "candidates")
	for _, err := range c.Models.GenerateContentStream(ctx, "gemini-2.5-pro", genai.Text("[[sim error_event=1 error_after=2]] hi"), nil) {
		if err != nil && (!errors.As(err, &e) || e.Code != 503 || e.Status != "UNAVAILABLE") {
			t.Errorf("in mid-stream: %+v", err)
		}
	}
}
