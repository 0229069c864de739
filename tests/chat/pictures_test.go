package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// picturesConfig has a model for each dialect that sees two pictures, and one that sees none.
const picturesConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: responses, base_url: "%[1]s/v1", responses: true, breaker: { failures: 0 } }
  - { name: openai, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: anthropic, dialect: anthropic, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: google, dialect: gemini, base_url: "%[1]s/v1beta", breaker: { failures: 0 } }
models:
  - &model
    id: responses
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { tools: true, vision: true, max_images: 2, files: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: responses, model: gpt-4.1 }]
  - { <<: *model, id: openai, targets: [{ upstream: openai, model: gpt-4.1 }] }
  - { <<: *model, id: anthropic, targets: [{ upstream: anthropic, model: claude-sonnet-4-5 }] }
  - { <<: *model, id: google, targets: [{ upstream: google, model: gemini-2.5-flash }] }
  - &blind { <<: *model, id: blind-responses, capabilities: { tools: true } }
  - { <<: *blind, id: blind-openai, targets: [{ upstream: openai, model: gpt-4.1 }] }
  - { <<: *blind, id: blind-anthropic, targets: [{ upstream: anthropic, model: claude-sonnet-4-5 }] }
  - { <<: *blind, id: blind-google, targets: [{ upstream: google, model: gemini-2.5-flash }] }
`

// Pictures of the tests: the data of each has its number.
func pictureData(n int) string { return fmt.Sprintf("aGk%dAAAA", n) }

// toolTurn is a turn in which two tools were called, the first of which gave a text and a
// picture, the second pictures only. pictures counts those of the second.
func toolTurn(path, model string, pictures int, more string) string {
	if path == "/messages" {
		image := func(n int) string {
			return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pictureData(n) + `"}}`
		}
		var second []string
		for n := range pictures {
			second = append(second, image(2+n))
		}
		return `{"model":"` + model + `","max_tokens":20,"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"look"},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{}},{"type":"tool_use","id":"call_2","name":"look","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"a tree"},` + image(1) + `]},` +
			`{"type":"tool_result","tool_use_id":"call_2","content":[` + strings.Join(second, ",") + `]}` + more + `]}]}`
	}
	image := func(n int) string {
		return `{"type":"input_image","image_url":"data:image/png;base64,` + pictureData(n) + `"}`
	}
	var second []string
	for n := range pictures {
		second = append(second, image(2+n))
	}
	return `{"model":"` + model + `","max_output_tokens":20,"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}],"input":[{"role":"user","content":"look"},` +
		`{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}"},{"type":"function_call","call_id":"call_2","name":"look","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"a tree"},` + image(1) + `]},` +
		`{"type":"function_call_output","call_id":"call_2","output":[` + strings.Join(second, ",") + `]}` + more + `]}`
}

// "My agent takes a screenshot, and the model says that it cannot see it." A model sees the
// pictures in the results of tools where its dialect has them; chat completions have them in
// a message of the user's behind all results.
func TestModelsSeeThePicturesInResults(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(picturesConfig, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "100")
	key := g.Key("a")
	for _, path := range []string{"/responses", "/messages"} {
		said := map[string][]string{
			"/responses": {"", `,{"role":"user","content":"So?"}`, `,{"role":"user","content":[{"type":"input_text","text":"So"},{"type":"input_text","text":"?"}]}`},
			"/messages":  {"", `,{"type":"text","text":"So?"}`, `,{"type":"text","text":"So"},{"type":"text","text":"?"}`},
		}[path]
		for _, model := range []string{"responses", "openai", "anthropic", "anthropic:strip_thinking_response=true", "google"} {
			for i, more := range said {
				body := toolTurn(path, model, 1, more)
				if i > 0 { // a result in several texts
					at := strings.Index(body, `a tree"}`)
					kind := body[strings.LastIndex(body[:at], "{"):at]
					body = body[:at] + `a "},` + kind + `tree"}` + body[at+len(`a tree"}`):]
				}
				status, header, answer := g.Post(path, key, body)
				if left := header.Get("X-Svc-Left-Out"); status != 200 || left != "" {
					t.Errorf("%s of %s is answered %d %s, left out are %q", path, model, status, answer, left)
					continue
				}
				sent := sim.Latest(t)
				if got, want := shownPictures(sent.Path, gjson.ParseBytes(sent.Body)), "call_1:a tree+1 call_2:2"; got != want {
					t.Errorf("%s of %s shows %s, want %s:\n%s", path, model, got, want, sent.Body)
				}
			}
		}
	}
	g.CLI("verify")
}

// shownPictures lists the text and the pictures of each call in a request.
func shownPictures(path string, body gjson.Result) string {
	var list []string
	show := func(call, text string, pictures ...string) {
		for i, p := range pictures {
			pictures[i] = strings.TrimSuffix(strings.TrimPrefix(p, "aGk"), "AAAA")
		}
		text = strings.Trim(text+"+"+strings.Join(pictures, "+"), "+")
		list = append(list, call+":"+text)
	}
	words := func(of gjson.Result) (text string) {
		for _, part := range of.Array() { // a text is a list of one
			text += part.Str + part.Get("text").Str
		}
		return text
	}
	texts := func(of gjson.Result) (text string, pictures []string) {
		for _, part := range of.Array() {
			text += part.Get("text").Str
			for _, data := range []string{part.Get("image_url").Str, part.Get("source.data").Str} {
				if data != "" {
					pictures = append(pictures, strings.TrimPrefix(data, "data:image/png;base64,"))
				}
			}
		}
		return text, pictures
	}
	switch {
	case strings.HasSuffix(path, "/responses"):
		for _, item := range body.Get(`input.#(type=="function_call_output")#`).Array() {
			text, pictures := texts(item.Get("output"))
			show(item.Get("call_id").Str, text, pictures...)
		}
	case strings.HasSuffix(path, "/messages"):
		for _, result := range body.Get(`messages.2.content.#(type=="tool_result")#`).Array() {
			text, pictures := texts(result.Get("content"))
			show(result.Get("tool_use_id").Str, text, pictures...)
		}
	case strings.HasSuffix(path, "/chat/completions"):
		parts := body.Get("messages.4.content").Array()
		for i := range 2 {
			result := body.Get(fmt.Sprint("messages.", 2+i))
			call, text := result.Get("tool_call_id").Str, words(result.Get("content"))
			if strings.HasPrefix(text, "(") {
				text = "" // the picture is elsewhere
			}
			if len(parts) < 2*i+2 || body.Get("messages.4.role").Str != "user" || !strings.Contains(parts[2*i].Get("text").Str, call) {
				return "no picture of " + call
			}
			show(call, text, strings.TrimPrefix(parts[2*i+1].Get("image_url.url").Str, "data:image/png;base64,"))
		}
	default: // Google's
		for _, part := range body.Get("contents.2.parts").Array() {
			if data := part.Get("inlineData.data").Str; data != "" && len(list) > 0 {
				last := &list[len(list)-1]
				*last = strings.TrimPrefix(strings.Replace(*last+"+"+strings.TrimSuffix(strings.TrimPrefix(data, "aGk"), "AAAA"), ":+", ":", 1), "+")
			} else if r := part.Get("functionResponse"); r.Exists() {
				text := words(r.Get("response.output"))
				if strings.HasPrefix(text, "(") {
					text = ""
				}
				show(fmt.Sprint("call_", len(list)+1), text)
			}
		}
	}
	return strings.Join(list, " ")
}

// A text replaces each picture for a model without vision, and a header reports it.
// Beyond the most pictures that a model takes, it gets the newest.
func TestPicturesThatAreNotShownAreReported(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(picturesConfig, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "100")
	key := g.Key("a")
	for path, want := range map[string]string{"/responses": "input.output.image", "/messages": "messages.content.content.image"} {
		for _, model := range []string{"responses", "openai", "anthropic", "google"} {
			for _, c := range []struct {
				model string
				shown []int
			}{{"blind-" + model, nil}, {model, []int{3, 4}}} {
				status, header, answer := g.Post(path, key, toolTurn(path, c.model, 3, ""))
				if left := header.Get("X-Svc-Left-Out"); status != 200 || left != want {
					t.Errorf("%s of %s is answered %d %s, left out are %q", path, c.model, status, answer, left)
					continue
				}
				sent := string(sim.Latest(t).Body)
				for n := 1; n <= 4; n++ {
					shown := len(c.shown) > 0 && n >= c.shown[0]
					if strings.Contains(sent, pictureData(n)) != shown {
						t.Errorf("%s of %s: picture %d is to be shown: %v\n%s", path, c.model, n, shown, sent)
					}
				}
				if !strings.Contains(sent, "not shown to this model") {
					t.Errorf("%s of %s: no text replaces the picture: %s", path, c.model, sent)
				}
			}
		}
	}
	g.CLI("verify")
}

// Pictures in results are paid for as all others are, and links in them are checked alike.
func TestPicturesInResultsCountAsPictures(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(picturesConfig, strings.TrimSuffix(sim.URL, "/v1")))
	for _, path := range []string{"/responses", "/messages"} {
		for _, model := range []string{"responses", "openai", "anthropic", "google"} {
			account := strings.TrimPrefix(path, "/") + "-" + model
			g.NewAccount(account, "0.0025") // a picture counts 1600 tokens
			key := g.Key(account)
			if status, _, answer := g.Post(path, key, toolTurn(path, "blind-"+model, 1, "")); status != 200 {
				t.Errorf("%s: a picture that is not sent has a cost: %d %s", path, status, answer)
			}
			if status, _, answer := g.Post(path, key, toolTurn(path, model, 1, "")); status != 402 {
				t.Errorf("%s of %s: two pictures are answered %d %s", path, model, status, answer)
			}
			inside := strings.NewReplacer("data:image/png;base64,"+pictureData(1), "http://169.254.169.254/x.png",
				`{"type":"base64","media_type":"image/png","data":"`+pictureData(1)+`"}`, `{"type":"url","url":"http://169.254.169.254/x.png"}`)
			requests := sim.Idle(t).Requests
			status, _, answer := g.Post(path, key, inside.Replace(toolTurn(path, model, 0, "")))
			place := map[string]string{"/responses": "input.3.output.1.image_url", "/messages": "messages.2.content.0.content.1.source"}[path]
			if status != 400 || !strings.Contains(string(answer), place) || sim.Idle(t).Requests != requests {
				t.Errorf("%s of %s: a link to the inside is answered %d %s", path, model, status, answer)
			}
		}
	}
	g.CLI("verify")
}

// Documents in results go where pictures do.
func TestModelsSeeTheDocumentsInResults(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(picturesConfig, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "100")
	key := g.Key("a")
	const pdf = "JVBERi0xLjQK"
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pictureData(1) + `"}}`
	body := strings.Replace(toolTurn("/messages", "MODEL", 1, ""), image, `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"`+pdf+`"}}`, 1)
	for model, place := range map[string]string{
		"anthropic": "messages.2.content.0.content.1.source.data", "anthropic:strip_thinking_response=true": "messages.2.content.0.content.1.source.data",
		"openai": "messages.4.content.1.file.file_data", "google": "contents.2.parts.1.inlineData.data",
	} {
		status, _, answer := g.Post("/messages", key, strings.Replace(body, "MODEL", model, 1))
		sent := sim.Latest(t).Body
		if got := gjson.GetBytes(sent, place).Str; status != 200 || strings.TrimPrefix(got, "data:application/pdf;base64,") != pdf {
			t.Errorf("%s is answered %d %s, and was sent %s", model, status, answer, sent)
		}
	}
	g.CLI("verify")
}
