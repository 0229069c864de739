package characters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// secret is a prompt that would break out of its place wherever it is pasted.
const secret = "You are Xanthippe,\n" +
	"the \"keeper\" of \\ the zircon vault.\u2028</system> Never reveal chrysanthemumdoor. 😀"

// words of the prompt that are nowhere else.
var secretWords = regexp.MustCompile(`(?i)xanthippe|zircon|chrysanthemumdoor`)

// way is how a client asks for a character.
type way struct {
	name, path, body string
	system           func(upstreams gjson.Result) string // the upstream's first message
	rest             string                              // path of the client's own words in the upstream's request
}

func ways() []way {
	const asks = `"messages":[{"role":"system","content":"Rhyme."},{"role":"user","content":"Who are you?"}]`
	const tells = `"input":"Who are you?","svc_parameters":{"character_slug":"xan"}`
	by := func(path string) func(gjson.Result) string {
		return func(got gjson.Result) string { return got.Get(path).Str }
	}
	first := by("messages.0.content")
	return []way{
		{"by a parameter", "/chat/completions", `{"model":"sim-chat",` + asks +
			`,"svc_parameters":{"character_slug":"xan"}}`,
			first, "messages.2.content"},
		{"by an escaped parameter", "/chat/completions", `{"model":"sim-chat",` + asks +
			`,"svc_parameters":{"character_slug":"\u0078an"}}`, first, "messages.2.content"},
		{"by the model's suffix", "/chat/completions", `{"model":"sim-chat:character_slug=x%61n",` + asks + `}`,
			first, "messages.2.content"},
		{"by both, of which the suffix holds", "/chat/completions", `{"model":"sim-chat:character_slug=xan",` + asks +
			`,"svc_parameters":{"character_slug":"nobody"}}`, first, "messages.2.content"},
		{"in a stream", "/chat/completions", `{"model":"sim-chat","stream":true,` + asks +
			`,"svc_parameters":{"character_slug":"xan"}}`, first, "messages.2.content"},
		{"on another dialect", "/chat/completions", `{"model":"sim-claude",` + asks +
			`,"svc_parameters":{"character_slug":"xan"}}`, by("system.0.text"), "messages.0.content"},
		{"in a stream of another dialect", "/chat/completions", `{"model":"sim-claude","stream":true,` + asks +
			`,"svc_parameters":{"character_slug":"xan"}}`, by("system.0.text"), "messages.0.content"},
		{"in /responses", "/responses", `{"model":"sim-chat",` + tells + `}`, first, "messages.1.content"},
		{"in a stream of /responses", "/responses", `{"model":"sim-chat","stream":true,` + tells + `}`, first,
			"messages.1.content"},
		{"in /messages by the suffix", "/messages", `{"model":"sim-chat:character_slug=xan","max_tokens":50,` +
			`"messages":[{"role":"user","content":"Who are you?"}]}`, first, "messages.1.content"},
		{"in /messages before Anthropic", "/messages", `{"model":"sim-claude:character_slug=xan","max_tokens":50,` +
			`"system":"Rhyme.","messages":[{"role":"user","content":"Who are you?"}]}`, by("system.0.text"),
			"messages.0.content"},
	}
}

// "The character's prompt was in the answer's instructions", "… and nobody paid for it."
func TestPromptsAreTakenPaidForAndSeenByNobody(t *testing.T) {
	t.Parallel()
	h := open(t, "", map[string]string{"xan.yaml": character("Xan", secret, "adult: true\nwebEnabled: true\n"),
		"broken.yaml": "name: [\nprompt: Xanthippe zircon\n"})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			with, prompt := h.buys(t, w.path, w.body)
			got := gjson.ParseBytes(with)
			if system := w.system(got); system != secret {
				t.Errorf("the upstream's first message is %q: %s", system, with)
			}
			if rest := got.Get(w.rest); !strings.Contains(rest.Raw, "Who are you?") {
				t.Errorf("the client's own words are %s: %s", rest.Raw, with)
			}
			if strings.Contains(string(with), "character_slug") {
				t.Errorf("upstreams hear of characters: %s", with)
			}
			bare := strings.NewReplacer(`"character_slug":"xan"`, "", `"character_slug":"\u0078an"`, "",
				`:character_slug=xan`, "", `:character_slug=x%61n`, "", `"character_slug":"nobody"`, "").Replace(w.body)
			if _, without := h.buys(t, w.path, bare); prompt < without+10 {
				t.Errorf("%d tokens of a prompt are counted with the character and %d without", prompt, without)
			}
		})
	}
	t.Run("by an upstream that speaks /responses", h.responses)
	t.Run("where a request cannot be served", h.refusals)
	t.Run("where a stream breaks off", h.brokenOff)
	for _, path := range []string{"/characters", "/characters/xan", "/characters/xan/reviews", "/characters/xan/photo",
		"/characters?search=zircon", "/models"} {
		_, header, answer := h.Get(path, h.key)
		hides(t, path, header, answer)
	}
	for _, args := range [][]string{{"character", "list"}, {"character", "list", "--json"},
		{"character", "review", "list"}} {
		out, err := h.TryCLI(args...)
		if err != nil || secretWords.Match(out) {
			t.Errorf("%v prints %s (%v)", args, out, err)
		}
	}
	if out, err := h.TryCLI("check"); err == nil || secretWords.Match(out) || secretWords.MatchString(err.Error()) {
		t.Errorf("the check prints %s (%v)", out, err)
	}
	if found := secretWords.FindString(h.Log()); found != "" {
		t.Errorf("the log has %q", found)
	}
}

// hides sees to it that nothing of the prompt is in an answer.
func hides(t *testing.T, what string, header http.Header, answer []byte) {
	t.Helper()
	var head bytes.Buffer
	_ = header.Write(&head)
	if found := secretWords.Find(append(head.Bytes(), answer...)); found != nil {
		t.Errorf("%s is answered with %q: %s", what, found, answer)
	}
}

// posts makes a request whose answer must hide the prompt.
func (h *house) posts(t *testing.T, path, body string) (status int, answer []byte) {
	t.Helper()
	status, header, answer := h.Post(path, h.key, body)
	hides(t, body, header, answer)
	return status, answer
}

// buys makes a request that is served, and checks its cost against the simulated
// upstream's count. It returns the upstream's body, and its tokens.
func (h *house) buys(t *testing.T, path, body string) (got []byte, prompt int64) {
	t.Helper()
	before, had := h.sim.Idle(t).Tokens, h.Settled()["a"].USD
	status, answer := h.posts(t, path, body)
	if status != 200 {
		t.Fatalf("%s is answered %d %s", body, status, answer)
	}
	made := h.sim.Idle(t).Tokens
	prompt = made.PromptTokens - before.PromptTokens
	want := rig.Money(1000*prompt + 2000*(made.CompletionTokens-before.CompletionTokens))
	if took := had - h.Settled()["a"].USD; took != want || want == 0 {
		t.Errorf("%s costs %s; the upstream made %s", body, took, want)
	}
	return h.sim.Latest(t).Body, prompt
}

// responses asks an upstream that echoes its instructions.
func (h *house) responses(t *testing.T) {
	for _, own := range []string{"", `,"instructions":"Rhyme."`} {
		for _, stream := range []string{"false", "true"} {
			body := `{"model":"native","input":"Who are you?","stream":` + stream + own +
				`,"svc_parameters":{"character_slug":"xan"},"raw_output":true,"return_token_ids":true,"echo":true}`
			had := h.Settled()["a"].USD
			status, answer := h.posts(t, "/responses", body)
			if status != 200 || !strings.Contains(string(answer), "Aye.") ||
				own != "" && !strings.Contains(string(answer), `"instructions":"Rhyme."`) {
				t.Errorf("%s is answered %d %s", body, status, answer)
			}
			got := gjson.Parse(h.responder.last.Load().(string))
			want := secret
			if own != "" {
				want += "\n\nRhyme."
			}
			if got.Get("instructions").Str != want || got.Get("svc_parameters").Exists() ||
				got.Get("raw_output").Exists() || got.Get("return_token_ids").Exists() || got.Get("echo").Exists() {
				t.Errorf("the upstream got %s", got.Raw)
			}
			if took := had - h.Settled()["a"].USD; took != 50*1000+7*2000 {
				t.Errorf("it costs %s", took)
			}
		}
	}
}

// refusals are ways in which a request with a character fails; none costs anything.
func (h *house) refusals(t *testing.T) {
	had := h.Settled()["a"].USD
	ask := func(model, text, slug, more string) string {
		return rig.Ask(model, text, fmt.Sprintf(`,"svc_parameters":{"character_slug":%q}%s`, slug, more))
	}
	const unknown = "CHARACTER_NOT_FOUND"
	refused := func(what, path, body string, want int, code string) {
		t.Helper()
		if status, answer := h.posts(t, path, body); status != want || !strings.Contains(string(answer), code) {
			t.Errorf("%s is answered %d %s, not %d %s", what, status, answer, want, code)
		}
	}
	for what, c := range map[string]struct {
		body, slug, more string
		status           int
		code             string
	}{
		"an unknown character":           {"x", "nobody", "", 404, unknown},
		"one whose file is broken":       {"x", "broken", "", 404, unknown},
		"an unknown one of a stream":     {"x", "nobody", `,"stream":true`, 404, unknown},
		"a path for a slug":              {"x", "../characters/xan", "", 404, unknown},
		"another case":                   {"x", "XAN", "", 404, unknown},
		"an empty slug":                  {"x", "", "", 400, "character_slug"},
		"a slug without end":             {"x", strings.Repeat("x", 257), "", 400, "character_slug"},
		"a context that is too long":     {"[[sim status=400 kind=context]]", "xan", "", 400, "context"},
		"an upstream that is down":       {"[[sim status=500]]", "xan", "", 500, "INFERENCE_FAILED"},
		"a mistake beside the character": {"x", "xan", `,"temperature":9`, 400, "temperature"},
	} {
		refused(what, "/chat/completions", ask("sim-chat", c.body, c.slug, c.more), c.status, c.code)
	}
	for _, text := range []string{"x", "first message", "in a detail"} {
		refused("an upstream that quotes", "/chat/completions", ask("native", text, "xan", ""), 400, "INVALID_REQUEST")
	}
	refused("an unknown one of the suffix", "/chat/completions",
		rig.Ask("sim-chat:character_slug=nobody", "x", ""), 404, unknown)
	refused("a number for a slug", "/chat/completions",
		rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":1}`), 400, "character_slug")
	refused("an unknown one in /responses", "/responses",
		`{"model":"sim-chat","input":"x","svc_parameters":{"character_slug":"nobody"}}`, 404, unknown)
	refused("a parameter in /messages", "/messages", `{"model":"sim-chat","max_tokens":5,"messages":[{"role":"user",`+
		`"content":"x"}],"svc_parameters":{"character_slug":"xan"}}`, 400, "svc_parameters")
	if now := h.Settled()["a"].USD; now != had {
		t.Errorf("refusals cost %s", had-now)
	}
}

// brokenOff is a stream that an upstream ends with words that repeat the prompt.
func (h *house) brokenOff(t *testing.T) {
	status, answer := h.posts(t, "/chat/completions",
		rig.Ask("native", "in an event", `,"stream":true,"svc_parameters":{"character_slug":"xan"}`))
	if status != 200 || !strings.Contains(string(answer), "Aye") || !strings.Contains(string(answer), `"error"`) {
		t.Errorf("answered %d %s", status, answer)
	}
}

// "My shortest question cost more than I had, and the operator paid the difference."
func TestThePromptIsHeldBeforeItIsSent(t *testing.T) {
	t.Parallel()
	h := open(t, "", map[string]string{"xan.yaml": character("Xan", strings.Repeat("Be long-winded. ", 2000), "")})
	h.NewAccount("poor", "0.004")
	poor := h.Key("poor")
	for _, body := range []string{
		rig.Ask("sim-chat", "x", `,"max_completion_tokens":1,"svc_parameters":{"character_slug":"xan"}`),
		rig.Ask("sim-chat:character_slug=xan", "x", `,"max_completion_tokens":1,"stream":true`),
		rig.Ask("sim-claude:character_slug=xan", "x", `,"max_completion_tokens":1`),
	} {
		h.Must(402, "POST", "/chat/completions", poor, body, nil)
	}
	for _, stream := range []string{"false", "true"} {
		h.Must(402, "POST", "/responses", poor, `{"model":"native","input":"x","max_output_tokens":1,"stream":`+stream+
			`,"svc_parameters":{"character_slug":"xan"}}`, nil)
	}
	h.Must(402, "POST", "/messages", poor,
		`{"model":"sim-claude:character_slug=xan","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, nil)
	if n := h.sim.Idle(t).Requests; n != 0 || h.responder.last.Load() != nil {
		t.Errorf("%d requests reached an upstream that could not be paid", n)
	}
	h.Must(200, "POST", "/chat/completions", poor, rig.Ask("sim-chat", "x", `,"max_completion_tokens":1`), nil)
	h.buys(t, "/chat/completions", rig.Ask("sim-chat:character_slug=xan", "x", `,"max_completion_tokens":1`))
}

// "The operator's rules were gone as soon as a character spoke."
func TestPromptsOfCharactersFollowTheOperators(t *testing.T) {
	t.Parallel()
	const rules = "Obey the law."
	h := open(t, rules, map[string]string{"xan.yaml": character("Xan", secret, "")})
	for more, want := range map[string]string{
		``: rules,
		`,"svc_parameters":{"character_slug":"xan"}`:                                   rules + "\n\n" + secret,
		`,"svc_parameters":{"character_slug":"xan","include_svc_system_prompt":false}`: secret,
	} {
		got, _ := h.buys(t, "/chat/completions", rig.Ask("sim-chat", "x", more))
		if first := gjson.GetBytes(got, "messages.0.content").Str; first != want {
			t.Errorf("%s: the upstream's first message is %q", more, first)
		}
	}
	// The echo of the parameters in effect names the character, and nothing of its prompt.
	var answer struct {
		Parameters map[string]json.RawMessage `json:"svc_parameters"`
	}
	raw := h.Must(200, "POST", "/chat/completions", h.key,
		rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":"xan"}`), &answer)
	if answer.Parameters != nil && string(answer.Parameters["character_slug"]) != `"xan"` || secretWords.Match(raw) {
		t.Errorf("answered %s", raw)
	}
}
