package anthropic

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// judge has the strict simulated Messages API check a request for a model; status 0 says
// that the dialect itself refused it.
type judge struct {
	url string
}

func newJudge(t testing.TB) *judge {
	s := strict.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &judge{url}
}

func (j *judge) ask(t testing.TB, model string, c *dialect.Chat) (status int, sent, said string) {
	t.Helper()
	var r proxy.Request
	var s dialect.Scratch
	to := target(c)
	to.Name, to.Quoted = model, jsontext.AppendString(nil, model)
	c.AskedCompletion = 0
	if i := c.Doc.TopIndex(dialect.ChatMaxCompletionTokens); i >= 0 {
		_, _ = fmt.Sscan(string(c.Raw(i)), &c.AskedCompletion)
	}
	c.Model.Chat.MaxCompletionTokens = 4000
	if err := (Dialect{}).Request(&r, c, to, &s); err != nil {
		u, ok := err.(*dialect.Unsupported)
		if !ok || u.Path == "" || u.Text == "" {
			t.Fatalf("%s: refused with %v, which names no member", c.Body, err)
		}
		return 0, "", u.Path + ": " + u.Text
	}
	q, err := http.NewRequest("POST", j.url+"/messages", bytes.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(VersionHeader, Version)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(r.Body), string(body)
}

// names is one model of each generation, and names of no generation.
var names = []string{
	"claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514",
	"claude-opus-4-1",
	"claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5-20251101", "claude-sonnet-4-6", "claude-opus-4-6",
	"claude-opus-4-7", "claude-opus-4-8",
	"claude-opus-5", "claude-sonnet-5", "claude-fable-5", "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5",
	"claude-fable-5-1", "claude-mythos-preview",
	"claude", "claude-opus-latest", "glm-5",
}

// exampleNames are the models behind this dialect in the example configs.
func exampleNames(t *testing.T) (list []string) {
	files, err := filepath.Glob("../../../config/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d example configs: %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse(name, data, func(name string) (string, bool) {
			return "AKIAEXAMPLEKEY23", name != "CDP_SECRET" // which has an example of its own
		})
		if err != nil {
			t.Fatal(err)
		}
		speaks := map[string]bool{}
		for _, u := range cfg.Upstreams {
			speaks[u.Name] = u.Dialect == "anthropic"
		}
		for _, m := range cfg.Models {
			for _, to := range m.Targets {
				if speaks[to.Upstream] {
					list = append(list, to.Model)
				}
			}
		}
	}
	if len(list) == 0 {
		t.Fatal("no example config has a model behind this dialect")
	}
	return list
}

// No request that a client may send is a 400 of the upstream: it is translated
// into one that passes, or refused here in words that name the member.
func TestNoTranslationIsRefusedByTheMessagesAPI(t *testing.T) {
	j := newJudge(t)
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const call = `{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}`
	const tool = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"a":{}}}}}]`
	called := func(more string) string {
		return `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ok","tool_calls":[` + call +
			`]` + more + `},{"role":"tool","tool_call_id":"c1","content":"x"}],` + tool
	}
	bodies := map[string]string{
		"plain":                        hi,
		"temperature":                  hi + `,"temperature":0.3`,
		"hot":                          hi + `,"temperature":1.8`,
		"temperature 1":                hi + `,"temperature":1`,
		"top_p":                        hi + `,"top_p":0.3`,
		"both samplers":                hi + `,"temperature":0.3,"top_p":0.3`,
		"both, one says nothing":       hi + `,"temperature":0.3,"top_p":1`,
		"both, the other says nothing": hi + `,"temperature":1.0,"top_p":0.3`,
		"top_k":                        hi + `,"top_k":4`,
		"no top_k":                     hi + `,"top_k":0`,
		"stop":                         hi + `,"stop":["END","x\n"]`,
		"white stop":                   hi + `,"stop":"\n"`,
		"unicode white stop":           hi + `,"stop":["\u2003"]`,
		"json_object":                  hi + `,"response_format":{"type":"json_object"}`,
		"schema": hi +
			`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{},"additionalProperties":false}}}`,
		"system only":               `"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]}]`,
		"begins with the assistant": `"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"}]`,
		"ends with the assistant":   `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well \\n \n \t "}]`,
		"white space":               `"messages":[{"role":"user","content":" \n"},{"role":"user","content":[{"type":"text","text":"\u00a0"},{"type":"text","text":"hi"}]}]`,
		"nothing but white space":   `"messages":[{"role":"user","content":" \n"}]`,
		"white system":              `"messages":[{"role":"system","content":" "},{"role":"user","content":"hi"}]`,
		"jpg":                       `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}]}]`,
		"bmp":                       `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/bmp;base64,aGk="}}]}]`,
		"bad base64":                `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk"}}]}]`,
		"a file's link":             `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]`,
		"documents":                 `"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk=","filename":""}},{"type":"file","file":{"file_data":"data:text/csv;base64,aGk="}},{"type":"file","file":{"file_data":"data:text/csv;base64,"}}]}]`,
		"tools":                     hi + "," + tool + `,"tool_choice":"auto"`,
		"a forced tool":             hi + "," + tool + `,"tool_choice":"required"`,
		"one tool": hi + "," + tool +
			`,"tool_choice":{"type":"function","function":{"name":"look"}},"parallel_tool_calls":false`,
		"a schema without its type": hi +
			`,"tools":[{"type":"function","function":{"name":"look","parameters":{"properties":{}}}}]`,
		"a schema of another type": hi +
			`,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"string"}}}]`,
		"a tool name with dots":          hi + `,"tools":[{"type":"function","function":{"name":"a.look"}}]`,
		"a custom tool":                  hi + `,"tools":[{"type":"custom","custom":{"name":"x"}}]`,
		"calls":                          called(""),
		"calls with thoughts":            called(`,"reasoning_content":"hm","thought_signature":"c2ln"`),
		"ids with other characters":      strings.ReplaceAll(called(""), "c1", "functions.look:0"),
		"ids that are empty":             strings.ReplaceAll(called(""), "c1", ""),
		"calls without results":          `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"user","content":"x"}]`,
		"calls at the end":               `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]}]`,
		"results without calls":          `"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"results behind other words":     `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"the same result twice":          `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"arguments other than an object": strings.Replace(called(""), `{\"a\":1}`, `[1]`, 1),
		"an id in every turn":            `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"assistant","tool_calls":[` + call + `,` + call + `]},{"role":"tool","tool_call_id":"c1","content":"y"},{"role":"tool","tool_call_id":"c1","content":"z"},{"role":"user","content":"go on"}]`,
		"cached results": strings.Replace(called(""), `"content":"x"`,
			`"content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]`, 1),
		"five marks": `"messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) +
			`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]`,
		"a refusal":            `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"hi"}]`,
		"more than one choice": hi + `,"n":2`,
		"a long user_id":       hi + `,"metadata":{"user_id":"` + strings.Repeat("x", 300) + `"}`,
		"members the dialect has not": hi +
			`,"seed":1,"frequency_penalty":1,"service_tier":"priority","thinking":{"type":"enabled"},"logit_bias":{}`,
		"a cap":                         hi + `,"max_completion_tokens":1`,
		"unsigned thoughts":             `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_details":[{"type":"reasoning.text","text":"x"},{"type":"reasoning.encrypted","data":""}]},{"role":"user","content":"hi"}]`,
		"an assistant that said naught": `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""},{"role":"user","content":"hi"}]`,
	}
	efforts := []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}
	var refused []string // of one model, without an effort
	for _, model := range append(exampleNames(t), names...) {
		for name, members := range bodies {
			for _, effort := range efforts {
				more := ""
				if effort != "" {
					more = `,"reasoning_effort":"` + effort + `"`
				}
				c := chatOf(t, `{"model":"m",`+members+more+`}`)
				if strings.Contains(members, `"n":2`) {
					c.Choices = 2
				}
				switch status, body, said := j.ask(t, model, c); {
				case status == 0:
					if model == "claude-haiku-4-5" && effort == "" {
						refused = append(refused, name)
					}
				case status != 200:
					t.Errorf("%s, %s, effort %q: %d %s\n%s", model, name, effort, status, said, body)
				}
			}
		}
	}
	want := []string{
		"a custom tool", "a file's link", "a schema of another type", "a tool name with dots", "bad base64", "bmp",
		"both samplers", "calls at the end",
		"calls without results", "documents", "five marks", "more than one choice",
		"nothing but white space", "results behind other words",
		"results without calls", "the same result twice", "unicode white stop", "white stop",
	}
	if slices.Sort(refused); !slices.Equal(refused, want) {
		t.Errorf("refused\n got %q\nwant %q", refused, want)
	}
}

// Members that the dialect supports are translated, not refused.
func TestSupportedMembersAreTranslated(t *testing.T) {
	j := newJudge(t)
	f := func(model, members, want string) {
		t.Helper()
		c := chatOf(t, `{"model":"m","max_completion_tokens":10000,`+members+`}`)
		status, body, said := j.ask(t, model, c)
		if status == 0 && !strings.HasPrefix(said, want) || status != 0 &&
			(status != 200 || !strings.Contains(body, want)) {
			t.Errorf("%s %s: %d %s\n%s\nwant %s", model, members, status, body, said, want)
		}
	}
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	f("claude-sonnet-4-5", hi+`,"reasoning_effort":"high"`, `"thinking":{"type":"enabled","budget_tokens":8000}`)
	f("claude-sonnet-4-5", hi+`,"reasoning_effort":"low"`, `"thinking":{"type":"enabled","budget_tokens":2000}`)
	f("claude-sonnet-4-5", hi+`,"reasoning_effort":"minimal"`, `"budget_tokens":1024}`)
	f("claude-sonnet-4-5", hi+`,"reasoning_effort":"high","temperature":0.5`, "temperature: ")
	f("claude-sonnet-4-5", hi+`,"temperature":0.5,"top_p":0.5`, "top_p: ")
	f("claude-opus-4-5", hi+`,"reasoning_effort":"max"`,
		`"thinking":{"type":"enabled","budget_tokens":9500},"output_config":{"effort":"high"}`)
	f("claude-opus-4-6", hi+`,"reasoning_effort":"max"`,
		`"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}`)
	f("claude-opus-4-6", hi+`,"reasoning_effort":"xhigh"`, `"output_config":{"effort":"high"}`)
	f("claude-opus-4-8", hi+`,"reasoning_effort":"xhigh"`,
		`"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}`)
	f("claude-opus-4-8", hi+`,"temperature":0.5`, "temperature: ")
	f("claude-opus-4-8", hi+`,"reasoning_effort":"none"`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`)
	f("claude-opus-5", hi+`,"reasoning_effort":"none"`, `"thinking":{"type":"disabled"}`)
	f("claude-sonnet-5-5", hi+`,"reasoning_effort":"none"`, `"thinking":{"type":"between_tools"}`)
	f("claude-opus-5-5", hi+`,"reasoning_effort":"none"`, `"output_config":{"effort":"low"}`)
	f("glm-5", hi+`,"reasoning_effort":"medium"`, `"thinking":{"type":"enabled","budget_tokens":5000}`)
	f("claude-haiku-4-5", hi+`,"n":1,"response_format":{"type":"json_object"}`, `"system":[{"type":"text","text":"Answer with one JSON object`)
	f("claude-haiku-4-5", hi+`,"logprobs":true`, "logprobs: ")
	f("claude-haiku-4-5", hi+`,"stop":["\n"]`, "stop: ")
	f("claude-haiku-4-5", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}]}]`, `"media_type":"image/jpeg"`)
	f("claude-haiku-4-5", `"messages":[{"role":"system","content":"be kind"}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"be kind"}]}]`)
	f("claude-haiku-4-5", `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"f:0","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"f:0","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]`,
		`"content":[{"type":"text","text":"x"}],"cache_control":{"type":"ephemeral"}}`)
	f("claude-haiku-4-5", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b \n"}]`,
		`{"type":"text","text":"b"}]}]`)
	f("claude-opus-4-6", `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`, "messages: ")
}

// The operator's setting has priority over the model's name.
func TestATargetsThinkingGoesBeforeItsName(t *testing.T) {
	f := func(thinking, want string) {
		t.Helper()
		c := chatOf(t, `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"hi"}]}`)
		c.Model.Chat.MaxCompletionTokens = 10000
		var r proxy.Request
		var s dialect.Scratch
		to := target(c)
		to.Name, to.Thinking = "our-claude-mirror", thinking
		if err := (Dialect{}).Request(&r, c, to, &s); err != nil || !strings.HasSuffix(string(r.Body), want) {
			t.Errorf("%s: %v %s", thinking, err, r.Body)
		}
	}
	f("budget", `"thinking":{"type":"enabled","budget_tokens":8000},"output_config":{"effort":"high"}}`)
	f("adaptive", `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`)
	f("none", `"content":[{"type":"text","text":"hi"}]}]}`)
}

// Conversations of every odd order, as buggy clients and trimmed histories make
// them: none becomes a 400 of the upstream.
func TestRandomConversationsPassTheMessagesAPI(t *testing.T) {
	j := newJudge(t)
	texts := []string{`"hi"`, `""`, `" "`, `"a \n"`, `null`, `[{"type":"text","text":"x"}]`,
		`[{"type":"text","text":"\u2003"},{"type":"text","text":"y","cache_control":{"type":"ephemeral","ttl":"1h"}}]`}
	ids := []string{"c1", "c2", "call.3", "a b", ""}
	passed, refused := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(list []string) string { return list[r.IntN(len(list))] }
		var open []string
		var list []string
		for n := 1 + r.IntN(7); n > 0; n-- {
			switch r.IntN(6) {
			case 0:
				list = append(list, `{"role":"`+pick([]string{"system", "developer"})+`","content":`+pick(texts)+`}`)
			case 1, 2:
				list = append(list, `{"role":"user","content":`+pick(texts)+`}`)
			case 3:
				more := ""
				if r.IntN(3) == 0 {
					more = `,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"c2ln"}]`
				}
				list = append(list, `{"role":"assistant","content":`+pick(texts)+more+`}`)
			default:
				var calls []string
				open = open[:0]
				for range 1 + r.IntN(3) {
					open = append(open, pick(ids))
					calls = append(calls, fmt.Sprintf(
						`{"id":%q,"type":"function","function":{"name":"look","arguments":%q}}`, open[len(open)-1],
						pick([]string{"{}", "", "[", `{"a":1}`})))
				}
				list = append(list, `{"role":"assistant","content":`+pick(texts)+`,"tool_calls":[`+strings.Join(calls,
					",")+`]}`)
				r.Shuffle(len(open), func(a, b int) { open[a], open[b] = open[b], open[a] })
				for _, id := range open {
					if r.IntN(12) == 0 {
						id = pick(ids) // a client that lost its way
					}
					list = append(list, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, id, pick(texts)))
				}
			}
		}
		effort := pick([]string{"", `,"reasoning_effort":"high"`, `,"reasoning_effort":"none"`})
		c := chatOf(t, `{"model":"m","messages":[`+strings.Join(list, ",")+`]`+effort+`}`)
		model := names[r.IntN(len(names))]
		switch status, body, said := j.ask(t, model, c); status {
		case 0:
			refused++
		case 200:
			passed++
		default:
			t.Fatalf("%s, seed %d: %d %s\n%s\nof %s", model, seed, status, said, body, c.Body)
		}
	}
	if passed < 300 {
		t.Errorf("%d passed, %d were refused: the conversations are not like a client's", passed, refused)
	}
}
