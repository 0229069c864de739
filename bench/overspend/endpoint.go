package overspend

import (
	"encoding/json"
	"fmt"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/sound"
)

// Endpoint is an endpoint of the gateway that charges.
type Endpoint struct {
	Name string
	Path string
	// Dialect is that of the upstream behind it: openai, anthropic, gemini, responses,
	// embeddings, sound, speech, job; "": it has no lies about text.
	Dialect string
	Stream  bool
	body    func(e *Endpoint, directive string, cap int) map[string]any

	// Model is the gateway's name of the model; "": the endpoint is left out.
	Model string
	// Price is the gateway's price, in 1e-9 USD.
	Price upstream.Price
}

// Endpoints are all endpoints; the caller gives those that exist a model and a price.
var Endpoints = []Endpoint{
	{Name: "chat", Path: "/chat/completions", Dialect: "openai", body: chatBody},
	{Name: "chat_stream", Path: "/chat/completions", Dialect: "openai", Stream: true, body: chatBody},
	{Name: "messages", Path: "/chat/completions", Dialect: "anthropic", body: chatBody},
	{Name: "messages_stream", Path: "/chat/completions", Dialect: "anthropic", Stream: true, body: chatBody},
	{Name: "generate", Path: "/chat/completions", Dialect: "gemini", body: chatBody},
	{Name: "generate_stream", Path: "/chat/completions", Dialect: "gemini", Stream: true, body: chatBody},
	{Name: "embeddings", Path: "/embeddings", Dialect: "embeddings",
		body: func(e *Endpoint, directive string, _ int) map[string]any {
			return map[string]any{"model": e.Model, "input": directive + " the river moves past old stone houses"}
		}},
	{Name: "images", Path: "/images/generations", body: func(e *Endpoint, directive string, _ int) map[string]any {
		return map[string]any{"model": e.Model, "prompt": directive + " a river at dawn"}
	}},
	{Name: "transcription", Path: "/audio/transcriptions", Dialect: "sound",
		body: func(e *Endpoint, directive string, _ int) map[string]any {
			return map[string]any{"model": e.Model, "prompt": directive}
		}},
	{Name: "speech", Path: "/audio/speech", Dialect: "speech", body: speechBody},
	{Name: "speech_stream", Path: "/audio/speech", Dialect: "speech", Stream: true, body: speechBody},
	{Name: "music", Path: "/audio/queue", Dialect: "job", body: func(e *Endpoint, directive string, _ int) map[string]any {
		return map[string]any{"model": e.Model, "prompt": directive + " rain on a roof", "duration_seconds": jobSeconds}
	}},
	{Name: "video", Path: "/video/queue", Dialect: "job", body: func(e *Endpoint, directive string, _ int) map[string]any {
		return map[string]any{"model": e.Model, "prompt": directive + " rain on a roof",
			"duration": fmt.Sprintf("%ds", jobSeconds)}
	}},
	{Name: "hidden_tools", Path: "/responses", Dialect: "responses", body: hiddenTools},
	{Name: "rpc", Path: "/crypto/rpc/", body: func(_ *Endpoint, directive string, _ int) map[string]any {
		return map[string]any{"jsonrpc": "2.0", "id": directive, "method": "eth_getBalance",
			"params": []string{"0x1", "latest"}}
	}},
}

// hosted are tools that an upstream carries out itself, each call at a price, which a client
// hides in functions of its own. hostedPrice is that of one call in 1e-9 USD, where no other
// is given.
var hosted = []string{"web_search", "code_interpreter", "image_generation", "file_search", "mcp", "shell"}

const hostedPrice = 10_000_000

func hiddenTools(e *Endpoint, directive string, cap int) map[string]any {
	body := map[string]any{"model": e.Model, "input": directive + " the small river moves past old stone houses"}
	var tools []any
	for _, kind := range hosted {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": "my_" + kind,
			"type": kind}})
	}
	if body["tools"] = tools; cap > 0 {
		body["max_output_tokens"] = cap
	}
	return body
}

// jobSeconds is the length of an ordered track or video.
const jobSeconds = 5

func speechBody(e *Endpoint, directive string, _ int) map[string]any {
	return map[string]any{"model": e.Model, "voice": "alloy", "streaming": e.Stream,
		"input": directive + " The small river moves past old stone houses, and nobody looks at it."}
}

// job says that the work outlives its request.
func (e *Endpoint) job() bool { return e.Dialect == "job" }

// EndpointNamed gives the endpoint of a name its model and price.
func EndpointNamed(name, model string, price upstream.Price) (Endpoint, error) {
	list, err := named("endpoint", []string{name}, Endpoints, func(e Endpoint) string { return e.Name })
	if err != nil {
		return Endpoint{}, err
	}
	e := list[0]
	e.Model, e.Price = model, price
	switch {
	case e.Name == "rpc":
		e.Path += model
	case e.Name == "hidden_tools" && price.Unit == 0:
		e.Price.Unit = hostedPrice
	}
	return e, nil
}

func chatBody(e *Endpoint, directive string, cap int) map[string]any {
	body := map[string]any{
		"model": e.Model, "stream": e.Stream,
		"messages": []map[string]string{
			{"role": "user", "content": directive + " the small river moves past old stone houses"}},
	}
	if cap > 0 {
		body["max_completion_tokens"] = cap
	}
	return body
}

// request is the body of one request with the scenario in words.
func (e *Endpoint) request(id, words string, cap int, prompt string) []byte {
	directive := fmt.Sprintf("[[sim id=%s %s]]", id, words)
	if prompt != "" {
		directive += " " + prompt
	}
	if e.Dialect == "sound" {
		return e.form(directive)
	}
	b, err := json.Marshal(e.body(e, directive, cap))
	if err != nil {
		panic("overspend: a map of strings and numbers is always JSON: " + err.Error())
	}
	return b
}

// soundBoundary is between the parts of a form, soundSeconds are those of its sound.
const (
	soundBoundary = "farebox-overspend-form"
	soundSeconds  = 7
)

// form is a body with sound in it.
func (e *Endpoint) form(directive string) []byte {
	var b []byte
	for name, value := range e.body(e, directive, 0) {
		b = fmt.Appendf(b, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", soundBoundary, name, value)
	}
	b = fmt.Appendf(b, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n", soundBoundary)
	b = append(b, sound.Bytes("wav", soundSeconds*time.Second)...)
	return fmt.Appendf(b, "\r\n--%s--\r\n", soundBoundary)
}

// contentType is that of its bodies.
func (e *Endpoint) contentType() string {
	if e.Dialect == "sound" {
		return "multipart/form-data; boundary=" + soundBoundary
	}
	return "application/json"
}

// cost is the cost of an output at this endpoint's price: real, and up to the cap of the
// request to the upstream.
func (e *Endpoint) cost(m *upstream.Made) (real, capped int64) {
	rest := m.Prompt*e.Price.Prompt + m.Units*e.Price.Unit
	return rest + m.Completion*e.Price.Completion, rest + m.WithinCap*e.Price.Completion
}
