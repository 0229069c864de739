package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/oracles/responsestest"
	"farebox/tests/rig"
)

const geminiLongConfig = `
log: { level: warn }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { openai_extras: true, responses_events: sdk }
upstreams:
  - { name: google, dialect: gemini, base_url: %[1]s, key: k, breaker: { failures: 0 } }
  - { name: faulty, dialect: gemini, base_url: %[2]s, key: k, breaker: { failures: 0 } }
models:
  - &model
    id: newer
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 2000
    capabilities: { tools: true, response_schema: true, reasoning: true, reasoning_effort: [low, high], logprobs: true, vision: true }
    price: { input: 1, output: 2, cache_read: 0.5 }
    targets: [{ upstream: google, model: gemini-3-flash-preview }]
  - { <<: *model, id: older, targets: [{ upstream: google, model: gemini-2.5-flash }] }
  - { <<: *model, id: newer-faulty, targets: [{ upstream: faulty, model: gemini-3-flash-preview }] }
  - { <<: *model, id: older-faulty, targets: [{ upstream: faulty, model: gemini-2.5-flash }] }
`

// Habits of a truthful server, and faults of another.
var (
	geminiHabits = []string{"", "", "tokens=60", "cached=4", "reasoning=9", "hidden=50", "hidden=50 hidden_in=total", "usage=late",
		"usage=twice", "usage=afterdone", "usage=zerofirst", "split=byte crlf=1", "split=utf8 unicode=1", "split=crlf", "split=frame",
		"comments=1 events_per_write=3", "unicode=1", "finish=SAFETY", "finish=RECITATION", "finish=MAX_TOKENS", "finish=NEW_ONE"}
	geminiFaults = []string{"cut=fin cut_after=3", "cut=rst cut_after=3", "error_event=1 error_after=4", "usage=none", "usage=null",
		"usage=huge", "usage=negative", "usage=zero", "usage=less", "usage=over", "usage=contradict", "usage=totalonly",
		"said_in=unknown", "status=500", "status=429", "status=400", "status=404", "kind=policy", "wrong=half", "wrong=html",
		"wrong=array", "garbage=1", "empty=1", "truncate=1", "finish=MALFORMED_FUNCTION_CALL", "ignore_cap=1 tokens=4000"}
)

// Thousands of conversations, in every client format, against servers of every habit and fault: the
// client's package can read every answer, and each has an end; the ledger matches the server's
// usage.
func TestLongGeminiConversationsAreWhole(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "k"})
	faulty := rig.StartUpstream(t, upstream.Options{Key: "k"})
	g := rig.StartGateway(t, fmt.Sprintf(geminiLongConfig, sim.URL, faulty.URL))
	g.NewAccount("a", "1000")
	g.NewAccount("b", "1000")
	keys := map[bool]string{false: g.Key("a"), true: g.Key("b")}
	const at = 4
	n := int64(servers.Campaign(3_000))
	var next, answered, broken atomic.Int64
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for seed := next.Add(1); seed <= n && !t.Failed(); seed = next.Add(1) {
				c := newGeminiTalk(uint64(seed))
				status, body, err := c.send(g, keys[c.faulty])
				if err != nil {
					// The connection may break where the server's did, and nowhere else.
					if !c.faulty {
						t.Errorf("seed %d: %s: %v", seed, c.body, err)
					}
					continue
				}
				whole, err := c.judge(status, body)
				switch {
				case err != nil:
					t.Errorf("seed %d, %s: %v\n%s\nanswered %d %s", seed, c.path, err, c.body, status, body)
				case whole:
					answered.Add(1)
				default:
					broken.Add(1)
				}
				if !c.faulty && !whole {
					t.Errorf("seed %d, %s: %s\nanswered %d %s", seed, c.path, c.body, status, body)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d answers, %d errors", answered.Load(), broken.Load())
	tokens, accounts := sim.Idle(t).Tokens, g.Settled()
	worth := rig.Money((tokens.PromptTokens-tokens.CachedTokens)*1000 + tokens.CachedTokens*500 + tokens.CompletionTokens*2000)
	if a := accounts["a"]; a.Spent != worth {
		t.Errorf("charged %s for usage worth %s (%+v)", a.Spent, worth, tokens)
	}
	if outcomes := sim.Stats().Outcomes; outcomes[upstream.Refused].Requests > 0 {
		t.Errorf("generateContent refused %d requests", outcomes[upstream.Refused].Requests)
	}
	if answered.Load() < n/2 || broken.Load() < n/50 {
		t.Errorf("%d answers, %d errors: the conversations are not of every kind", answered.Load(), broken.Load())
	}
	faulty.Idle(t)
}

// geminiTalk is one random conversation in one form.
type geminiTalk struct {
	r      *rand.Rand
	path   string
	body   string
	stream bool
	faulty bool
}

func newGeminiTalk(seed uint64) *geminiTalk {
	c := &geminiTalk{r: rand.New(rand.NewPCG(seed, 11))}
	c.stream, c.faulty = c.r.IntN(3) > 0, c.r.IntN(5) == 0
	habit := c.pick(geminiHabits...)
	if !c.stream && habit == "usage=afterdone" {
		habit = "" // whole answers have no event after the last, so that no usage would be reported
	}
	model := c.pick("newer", "older")
	if c.faulty {
		habit, model = c.pick(geminiFaults...), model+"-faulty"
	}
	say := func() string { return c.pick("Go on.", "Wie geht es?", "\u00e9 😀", `a \"quote\"\n`, "<b>") }
	asked := fmt.Sprintf("[[sim id=s%d %s%s]] %s", seed, habit, c.pick("", "", " tool=2", " reasoning=5"), say())
	members := ""
	switch c.r.IntN(5) {
	case 0:
		c.path = "/responses"
		members = c.responses(asked, say)
	case 1:
		c.path = "/messages"
		members = c.messages(asked, say)
	default:
		c.path = "/chat/completions"
		members = c.chat(asked, say, model)
	}
	c.body = fmt.Sprintf(`{"model":%q,"stream":%v%s}`, model, c.stream, members)
	return c
}

func (c *geminiTalk) pick(list ...string) string { return list[c.r.IntN(len(list))] }

func (c *geminiTalk) maybe(list ...string) string {
	if c.r.IntN(2) == 0 {
		return ""
	}
	return c.pick(list...)
}

const (
	lookSchema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	tinyPNG    = "data:image/png;base64,iVBORw0KGgo="
)

func (c *geminiTalk) chat(asked string, say func() string, model string) string {
	var list []string
	if c.r.IntN(3) == 0 {
		list = append(list, `{"role":"`+c.pick("system", "developer")+`","content":"`+say()+`"}`)
	}
	for i := range c.r.IntN(4) {
		list = append(list, `{"role":"user","content":"`+say()+`"}`)
		switch c.r.IntN(3) {
		case 0:
			list = append(list, `{"role":"assistant","content":"`+say()+`"`+c.maybe(`,"reasoning_content":"hm"`,
				`,"reasoning_details":[{"type":"reasoning.encrypted","data":"c2ltdWxhdGVk","format":"google-gemini-v1"}]`)+`}`)
		case 1:
			list = append(list, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%[1]d","type":"function",`+
				`"function":{"name":"look","arguments":"{\"a\":\"x\"}"}},{"id":"d%[1]d","type":"function","function":{"name":"look",`+
				`"arguments":""}}]%[2]s},{"role":"tool","tool_call_id":"d%[1]d","content":"{\"seen\":1}"},`+
				`{"role":"tool","tool_call_id":"c%[1]d","content":"none"}`, i, c.maybe(`,"thought_signature":"c2ltdWxhdGVk"`)))
		}
	}
	if c.r.IntN(4) == 0 {
		list = append(list, `{"role":"user","content":[{"type":"text","text":"`+asked+`"},{"type":"image_url","image_url":{"url":"`+
			tinyPNG+`"}}]}`)
	} else {
		list = append(list, `{"role":"user","content":"`+asked+`"}`)
	}
	more := `,"messages":[` + strings.Join(list, ",") + `]`
	more += c.maybe(`,"temperature":0.5`, `,"top_p":0.5,"seed":7`, `,"stop":["END"]`, `,"max_completion_tokens":30`)
	more += c.maybe(`,"reasoning_effort":"low"`, `,"reasoning_effort":"high"`)
	switch c.r.IntN(4) {
	case 0:
		more += `,"tools":[{"type":"function","function":{"name":"look","parameters":` + lookSchema + `}}]` +
			c.maybe(`,"tool_choice":"required"`, `,"tool_choice":"none"`)
	case 1:
		more += c.pick(`,"logprobs":true,"top_logprobs":2`, `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":`+
			lookSchema+`}}`)
	case 2:
		if strings.HasPrefix(model, "older") {
			more += `,"n":2`
		}
	}
	if c.stream {
		more += c.maybe(`,"stream_options":{"include_usage":true}`, `,"stream_options":{"include_usage":false}`)
	}
	return more
}

func (c *geminiTalk) responses(asked string, say func() string) string {
	var list []string
	for i := range c.r.IntN(3) {
		list = append(list, `{"role":"user","content":"`+say()+`"}`)
		if c.r.IntN(2) == 0 {
			list = append(list, fmt.Sprintf(`{"type":"function_call","call_id":"c%[1]d","name":"look","arguments":"{}"},`+
				`{"type":"function_call_output","call_id":"c%[1]d","output":"x"}`, i))
		}
	}
	list = append(list, `{"role":"user","content":[{"type":"input_text","text":"`+asked+`"}`+
		c.maybe(`,{"type":"input_image","image_url":"`+tinyPNG+`"}`)+`]}`)
	return `,"input":[` + strings.Join(list, ",") + `]` + c.maybe(`,"instructions":"Be brief."`) +
		c.maybe(`,"tools":[{"type":"function","name":"look","parameters":`+lookSchema+`,"strict":false}]`) +
		c.maybe(`,"reasoning":{"effort":"high"}`)
}

func (c *geminiTalk) messages(asked string, say func() string) string {
	var list []string
	for i := range c.r.IntN(3) {
		list = append(list, `{"role":"user","content":"`+say()+`"}`, fmt.Sprintf(
			`{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"toolu_%[1]d","name":"look","input":{}}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%[1]d","content":"y"}]}`, i))
	}
	list = append(list, `{"role":"user","content":"`+asked+`"}`)
	return `,"max_tokens":1500,"messages":[` + strings.Join(list, ",") + `]` + c.maybe(`,"system":"Be brief."`) +
		`,"tools":[{"name":"look","input_schema":` + lookSchema + `}]` +
		c.maybe(`,"thinking":{"type":"enabled","budget_tokens":1024}`)
}

func (c *geminiTalk) send(g *rig.Gateway, key string) (int, string, error) {
	req, err := http.NewRequest("POST", g.URL+c.path, strings.NewReader(c.body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// judge says whether an answer is whole, or an error as its form has it.
func (c *geminiTalk) judge(status int, body string) (whole bool, err error) {
	if strings.Contains(body, "gemini") && !strings.Contains(body, "google-gemini-v1") || strings.Contains(body, "simsecret") {
		return false, fmt.Errorf("it shows the upstream's names")
	}
	if status != 200 {
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &v); err != nil || v["error"] == nil {
			return false, fmt.Errorf("it is not an error: %w", err)
		}
		return false, nil
	}
	switch {
	case c.path == "/responses" && c.stream:
		r, err := responsestest.Check(body)
		return err == nil && (r.Status == "completed" || r.Status == "incomplete"), err
	case c.path == "/responses":
		r, err := responsestest.CheckResponse([]byte(body))
		return err == nil && (r.Status == "completed" || r.Status == "incomplete"), err
	case c.path == "/messages" && c.stream:
		return messageEvents(body)
	case c.path == "/messages":
		var m anthropic.Message
		err := json.Unmarshal([]byte(body), &m)
		return err == nil && m.StopReason != "" && m.Usage.OutputTokens > 0, err
	case c.stream:
		return chatChunks(body, strings.Contains(c.body, `"include_usage":false`))
	}
	var v chatCompletion
	err = strictly(body, &v)
	return err == nil && len(v.Choices) > 0 && v.Choices[0].Finish != nil && v.Usage != nil, err
}

func strictly(data string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(data)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// chatCompletion is all that a completion or a chunk may have.
type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *struct {
		Prompt     int64            `json:"prompt_tokens"`
		Completion int64            `json:"completion_tokens"`
		Total      int64            `json:"total_tokens"`
		Input      map[string]int64 `json:"prompt_tokens_details"`
		Output     map[string]int64 `json:"completion_tokens_details"`
	} `json:"usage"`
	Cost json.RawMessage `json:"cost"`
}

type chatChoice struct {
	Index    int             `json:"index"`
	Delta    *chatMessage    `json:"delta"`
	Message  *chatMessage    `json:"message"`
	Logprobs json.RawMessage `json:"logprobs"`
	Finish   *string         `json:"finish_reason"`
}

type chatMessage struct {
	Role      string              `json:"role"`
	Content   *string             `json:"content"`
	Reasoning *string             `json:"reasoning_content"`
	Details   []map[string]any    `json:"reasoning_details"`
	Signature string              `json:"thought_signature"`
	Cited     []json.RawMessage   `json:"annotations"`
	Images    []json.RawMessage   `json:"images"`
	Calls     []chatCallOfMessage `json:"tool_calls"`
}

type chatCallOfMessage struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatChunks reads a stream as strictly as the strictest client may.
func chatChunks(body string, hidesUsage bool) (whole bool, err error) {
	rest, ok := strings.CutSuffix(body, "data: [DONE]\n\n")
	if !ok {
		return false, fmt.Errorf("it has no [DONE]")
	}
	id, finished, arguments := "", map[int]string{}, map[string]string{}
	begun, usage, failed := map[int]bool{}, 0, false
	for e := range strings.SplitSeq(strings.TrimSuffix(rest, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(e, "data: ")
		switch {
		case failed:
			return false, fmt.Errorf("%q follows an error", e)
		case !ok && strings.HasPrefix(e, ":"):
			continue
		case !ok || strings.Contains(data, "\n"):
			return false, fmt.Errorf("%q is not an event", e)
		case strings.HasPrefix(data, `{"error":`):
			var v struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(data), &v); err != nil || v.Error.Message == "" || v.Error.Code == "" {
				return false, fmt.Errorf("%q is not an error: %v", e, err)
			}
			failed = true
			continue
		}
		var v chatCompletion
		if err := strictly(data, &v); err != nil {
			return false, fmt.Errorf("%q: %w", e, err)
		}
		if id == "" {
			id = v.ID
		}
		if v.ID != id || v.Object != "chat.completion.chunk" || v.Created == 0 || v.Model == "" {
			return false, fmt.Errorf("%q is of another stream", e)
		}
		if v.Usage != nil {
			if usage++; v.Usage.Total != v.Usage.Prompt+v.Usage.Completion || v.Usage.Prompt <= 0 {
				return false, fmt.Errorf("%q does not add up", e)
			}
		}
		for _, ch := range v.Choices {
			switch {
			case usage > 0 || finished[ch.Index] != "" || ch.Delta == nil:
				return false, fmt.Errorf("%q follows the end", e)
			case !begun[ch.Index] && ch.Delta.Role != "assistant" || begun[ch.Index] && ch.Delta.Role != "":
				return false, fmt.Errorf("%q: the role is not in the first chunk alone", e)
			}
			begun[ch.Index] = true
			for _, call := range ch.Delta.Calls {
				key := fmt.Sprint(ch.Index, *call.Index)
				if _, known := arguments[key]; known == (call.ID != "") {
					return false, fmt.Errorf("%q: a call has its id once", e)
				}
				arguments[key] += call.Function.Arguments
			}
			if ch.Finish != nil {
				finished[ch.Index] = *ch.Finish
			}
		}
	}
	for key, args := range arguments {
		if !json.Valid([]byte(args)) {
			return false, fmt.Errorf("the arguments of %s are %q", key, args)
		}
	}
	if failed {
		return false, nil
	}
	if len(finished) != len(begun) || len(begun) == 0 || usage == 0 != hidesUsage {
		return false, fmt.Errorf("it has no end: %v of %v, %d usages", finished, begun, usage)
	}
	return true, nil
}

// messageEvents has Anthropic's own package put the events together.
func messageEvents(body string) (whole bool, err error) {
	var m anthropic.Message
	open, failed := map[int64]bool{}, false
	for e := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(e, "\ndata: ")
		name = strings.TrimPrefix(name, "event: ")
		if failed {
			return false, fmt.Errorf("%q follows an error", e)
		}
		if failed = name == "error"; failed || name == "ping" {
			continue
		}
		var event anthropic.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(data), &event); err != nil || event.Type != name {
			return false, fmt.Errorf("%q: %w", e, err)
		}
		switch v := event.AsAny().(type) {
		case nil:
			return false, fmt.Errorf("%q is unknown", e)
		case anthropic.ContentBlockStartEvent:
			open[v.Index] = true
		case anthropic.ContentBlockDeltaEvent:
			if !open[v.Index] || v.Delta.AsAny() == nil {
				return false, fmt.Errorf("%q is for no open block, or of no kind", e)
			}
		case anthropic.ContentBlockStopEvent:
			delete(open, v.Index)
		}
		if err := m.Accumulate(event); err != nil {
			return false, fmt.Errorf("%q: %w", e, err)
		}
	}
	if !failed && (len(open) > 0 || m.StopReason == "" || !strings.HasSuffix(body, "{\"type\":\"message_stop\"}\n\n")) {
		return false, fmt.Errorf("it has no end")
	}
	return !failed, nil
}
