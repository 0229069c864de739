package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
	"farebox/proxy"
)

// judge has the strict simulated generateContent check a request for a model; status 0
// says that the dialect itself refused it.
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
	c.AskedCompletion = 0
	if i := c.Doc.TopIndex(dialect.ChatMaxCompletionTokens); i >= 0 {
		_, _ = fmt.Sscan(string(c.Raw(i)), &c.AskedCompletion)
	}
	c.Model.Chat.MaxCompletionTokens = 4000
	if err := (gemini.Dialect{}).Request(&r, c, targetOf(c, model), &s); err != nil {
		u, ok := err.(*dialect.Unsupported)
		if !ok || u.Path == "" || u.Text == "" {
			t.Fatalf("%s: refused with %v, which names no member", c.Body, err)
		}
		return 0, "", u.Path + ": " + u.Text
	}
	parse(t, r.Body)
	a, err := http.Post(j.url+string(r.Path), "application/json", bytes.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(r.Body), string(body)
}

// parse reads a request with the vendor's own types, which must know each member.
func parse(t testing.TB, body []byte) {
	t.Helper()
	var typed struct {
		Contents          []*genai.Content        `json:"contents"`
		SystemInstruction *genai.Content          `json:"systemInstruction"`
		Tools             []*genai.Tool           `json:"tools"`
		ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
		GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
	}
	// The word for a lost signature is not base64, as which the types read it.
	d := json.NewDecoder(bytes.NewReader(bytes.ReplaceAll(body, []byte("skip_thought_signature_validator"), []byte("c2ln"))))
	d.DisallowUnknownFields()
	if err := d.Decode(&typed); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}

// names is one model of each generation, and names of no generation.
var names = []string{
	"gemini-2.0-flash", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.5-flash-image",
	"gemini-3-pro-preview", "gemini-3-flash-preview", "gemini-3.1-pro-preview", "gemini-3.5-flash", "gemini-3.5-flash-lite",
	"gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.8-flash", "gemini-4-argon", "gemini-flash-latest", "gemma-3-27b-it",
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
		if !bytes.Contains(data, []byte("dialect: gemini")) {
			continue
		}
		cfg, err := config.Parse(name, data, func(string) (string, bool) { return "x", true })
		if err != nil {
			t.Fatal(err)
		}
		speaks := map[string]bool{}
		for _, u := range cfg.Upstreams {
			speaks[u.Name] = u.Dialect == "gemini"
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
func TestNoTranslationIsRefusedByGenerateContent(t *testing.T) {
	j := newJudge(t)
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const call = `{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}`
	const tool = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"a":{}}}}}]`
	called := func(more string) string {
		return `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ok","tool_calls":[` + call +
			`]` + more + `},{"role":"tool","tool_call_id":"c1","content":"x"}],` + tool
	}
	part := func(part string) string { return `"messages":[{"role":"user","content":[` + part + `]}]` }
	bodies := map[string]string{
		"plain":                            hi,
		"sampling":                         hi + `,"temperature":2,"top_p":0.3,"top_k":4,"seed":99999999999,"presence_penalty":1.5`,
		"no top_k":                         hi + `,"top_k":0`,
		"stop":                             hi + `,"stop":["END","\n"]`,
		"empty stop":                       hi + `,"stop":""`,
		"json_object":                      hi + `,"response_format":{"type":"json_object"}`,
		"schema":                           hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"string"}}}}}`,
		"logprobs":                         hi + `,"logprobs":true,"top_logprobs":5`,
		"logprobs of 0":                    hi + `,"top_logprobs":0`,
		"system only":                      `"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]}]`,
		"begins with the assistant":        `"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"}]`,
		"begins with the assistant's call": `"messages":[{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":"x"}],` + tool,
		"ends with the assistant":          `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well "}]`,
		"white space":                      `"messages":[{"role":"user","content":" \n"},{"role":"user","content":[{"type":"text","text":"\u00a0"},{"type":"text","text":"hi"}]}]`,
		"nothing but white space":          `"messages":[{"role":"user","content":" \n"}]`,
		"jpg":                              part(`{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}`),
		"gif":                              part(`{"type":"image_url","image_url":{"url":"data:image/gif;base64,aGk="}}`),
		"bad base64":                       part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk"}}`),
		"a link":                           part(`{"type":"image_url","image_url":{"url":"https://x.org/a.webp"}}`),
		"a file's link":                    part(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`),
		"documents":                        part(`{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk=","filename":""}},{"type":"file","file":{"file_data":"data:text/csv;base64,aGk="}}`),
		"sound":                            part(`{"type":"text","text":"x"},{"type":"input_audio","input_audio":{"data":"aGk=","format":"ogg"}}`),
		"video":                            part(`{"type":"video_url","video_url":{"url":"data:video/mov;base64,aGk="}},{"type":"video_url","video_url":{"url":"https://youtu.be/x"}}`),
		"tools":                            hi + "," + tool + `,"tool_choice":"auto"`,
		"a forced tool":                    hi + "," + tool + `,"tool_choice":"required"`,
		"one tool":                         hi + "," + tool + `,"tool_choice":{"type":"function","function":{"name":"look"}}`,
		"strict tools":                     hi + `,"tools":[{"type":"function","function":{"name":"look","strict":true}}],"tool_choice":"none"`,
		"one call at a time":               hi + "," + tool + `,"parallel_tool_calls":false`,
		"a tool name with spaces":          hi + `,"tools":[{"type":"function","function":{"name":"a look"}}]`,
		"a custom tool":                    hi + `,"tools":[{"type":"custom","custom":{"name":"x"}}]`,
		"calls":                            called(""),
		"calls with thoughts":              called(`,"reasoning_content":"hm","thought_signature":"c2ltdWxhdGVk"`),
		"calls with another's thoughts":    called(`,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"%%","format":"anthropic-claude-v1"}],"thought_signature":"%%"`),
		"ids with other characters":        strings.ReplaceAll(called(""), "c1", "functions.look:0"),
		"ids that are empty":               strings.ReplaceAll(called(""), "c1", ""),
		"calls without results":            `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"user","content":"x"}]`,
		"calls at the end":                 `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]}]`,
		"results without calls":            `"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"results behind other words":       `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"the same result twice":            `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`,
		"arguments other than an object":   strings.Replace(called(""), `{\"a\":1}`, `[1]`, 1),
		"an id in every turn":              `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"assistant","tool_calls":[` + call + `,` + call + `]},{"role":"tool","tool_call_id":"c1","content":"y"},{"role":"tool","tool_call_id":"c1","content":"z"},{"role":"user","content":"go on"}]`,
		"a refusal":                        `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"hi"}]`,
		"more than one choice":             hi + `,"n":2`,
		"members the dialect has not":      hi + `,"min_p":1,"repetition_penalty":1,"service_tier":"priority","thinking":{"type":"enabled"},"logit_bias":{},"cached_content":"x"`,
		"a cap":                            hi + `,"max_completion_tokens":1`,
		"an assistant that said naught":    `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""},{"role":"user","content":"hi"}]`,
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
					if model == "gemini-3.8-flash" && effort == "" {
						refused = append(refused, name)
					}
				case status != 200:
					t.Errorf("%s, %s, effort %q: %d %s\n%s", model, name, effort, status, said, body)
				}
			}
		}
	}
	want := []string{
		"a custom tool", "a file's link", "a tool name with spaces", "bad base64", "calls at the end",
		"calls without results", "empty stop", "ends with the assistant", "gif", "more than one choice",
		"nothing but white space", "results behind other words", "results without calls",
		"the same result twice",
	}
	if slices.Sort(refused); !slices.Equal(refused, want) {
		t.Errorf("refused\n got %q\nwant %q", refused, want)
	}
}

// Conversations of every odd order, as buggy clients and trimmed histories make
// them: none becomes a 400 of the upstream.
func TestRandomConversationsPassGenerateContent(t *testing.T) {
	j := newJudge(t)
	texts := []string{`"hi"`, `""`, `" "`, `"a \n"`, `null`, `[{"type":"text","text":"x"}]`,
		`[{"type":"text","text":"\u2003"},{"type":"text","text":"y","cache_control":{"type":"ephemeral","ttl":"1h"}}]`}
	ids := []string{"c1", "c2", "call.3", "a b", ""}
	thoughts := []string{"", "", `,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"c2ln"}]`,
		`,"thought_signature":"c2ltdWxhdGVk"`,
		`,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.encrypted","id":"c1","data":"c2ltdWxhdGVk","format":"google-gemini-v1"},{"type":"reasoning.encrypted","data":"c2ltdWxhdGVk","format":"google-gemini-v1"}]`,
		`,"reasoning_details":[{"type":"reasoning.encrypted","data":"%","format":"anthropic-claude-v1"}]`}
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
				list = append(list, `{"role":"assistant","content":`+pick(texts)+pick(thoughts)+`}`)
			default:
				var calls []string
				open = open[:0]
				for range 1 + r.IntN(3) {
					open = append(open, pick(ids))
					calls = append(calls, fmt.Sprintf(
						`{"id":%q,"type":"function","function":{"name":"look","arguments":%q}}`, open[len(open)-1],
						pick([]string{"{}", "", "[", `{"a":1}`})))
				}
				list = append(list, `{"role":"assistant","content":`+pick(texts)+pick(thoughts)+`,"tool_calls":[`+
					strings.Join(calls, ",")+`]}`)
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
