package upstream

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// answer is the model's answer, before a dialect gives it a wire format.
type answer struct {
	id      string
	model   string
	created int64
	prompt  int64
	choices []choice
	hidden  int64 // tokens that are thought and never written
	usage   bool  // the client asked for usage in the stream
	sc      *Scenario
	asked   gjson.Result
}

// choice is one completion: reasoning, then content or tool calls.
type choice struct {
	reasoning text
	content   text
	tools     []toolCall
	draws     int64  // bytes of a picture behind the content
	finish    string // stop, length, tool_calls
}

type toolCall struct {
	id, name string
	args     text
}

// step is the smallest part of a stream.
type step struct {
	kind   stepKind
	choice int
	tool   int
	text   string
	tokens int64
}

type stepKind uint8

const (
	stepReasoning stepKind = iota
	stepContent
	stepTool // a tool call starts; text is its name
	stepArgs
	stepPicture
)

const (
	// A cap up to this size is taken as the wanted length, so that a test says
	// how long the answer is with the usual field. Above it, it is only a cap.
	capAsLength = 512
	maxChoices  = 128
	tokenBytes  = 4 // " the"
)

// answerFor decides the model's answer to a chat or messages request.
func (c *conn) answerFor(asked gjson.Result, x *exchange) *answer {
	s := c.srv
	n := s.ids.Add(1)
	a := &answer{
		id:      strconv.FormatUint(mix(n), 36),
		model:   asked.Get("model").Str,
		created: time.Now().Unix(),
		prompt:  CountPrompt([]byte(asked.Raw)),
		usage:   asked.Get("stream_options.include_usage").Bool(),
		sc:      x.sc,
		asked:   asked,
	}
	if a.hidden = x.sc.Hidden; a.limit() > 0 {
		a.hidden = min(a.hidden, int64(a.limit()))
	}
	choices := min(max(1, int(asked.Get("n").Int())), maxChoices)
	for i := range choices {
		ch := a.choose(s, n+uint64(i))
		if x.endpoint == "chat" || x.google {
			ch.draws = x.sc.Draws
		}
		a.choices = append(a.choices, ch)
	}
	x.answer = a
	x.tally.PromptTokens, x.tally.CachedTokens, x.tally.WrittenTokens = a.prompt, a.cached(), a.written()
	return a
}

// cap is the most tokens one choice may have; 0 if absent.
func (a *answer) cap() int {
	for _, name := range []string{"max_completion_tokens", "max_tokens", "max_output_tokens"} {
		if v := a.asked.Get(name); v.Type == gjson.Number && v.Int() > 0 {
			return int(v.Int())
		}
	}
	return 0
}

// limit is the cap that the answer keeps to; 0: no cap.
func (a *answer) limit() int {
	if a.sc.IgnoreCap {
		return 0
	}
	return a.cap()
}

func (a *answer) choose(s *Server, seed uint64) choice {
	limit, wanted := a.limit(), s.options.Tokens
	if limit > 0 && limit <= capAsLength {
		wanted = limit
	}
	wanted = a.sc.Tokens.Or(wanted)
	if a.sc.Big > 0 {
		wanted = int(a.sc.Big / tokenBytes)
	}
	ch := choice{reasoning: pieces(nil), content: pieces(nil), finish: "stop"}
	thought := a.thought(wanted)
	left := -1
	if limit > 0 {
		room := limit - int(a.hidden)
		thought = min(thought, room)
		left = room - thought
	}
	ch.reasoning = words{list: plainWords, start: int(seed % 997), n: thought}
	switch {
	case a.wantsTool():
		ch.finish = "tool_calls"
		ch.tools = a.toolCalls(seed)
		return ch
	case a.sc.Echo != "":
		ch.content = tokenise(a.sc.Echo)
	case a.sc.Big > 0:
		ch.content = words{list: []string{" the"}, n: wanted}
	case a.schema().Exists():
		ch.content = tokenise(exampleJSON(a.schema()))
	case a.asked.Get("response_format.type").Str == "json_object", a.asked.Get("text.format.type").Str == "json_object":
		ch.content = tokenise(`{"answer":"the small river","confidence":7,"done":true}`)
	default:
		list := plainWords
		if a.sc.Unicode || strings.Contains(a.model, "unicode") {
			list = unicodeWords
		}
		ch.content = words{list: list, start: int(seed % 997), n: max(0, wanted-thought)}
	}
	if left >= 0 && ch.content.Len() >= left {
		ch.content, ch.finish = opening{ch.content, left}, "length"
	}
	return ch
}

// thought is the number of reasoning tokens at the beginning: as the scenario says, or a
// quarter of the answer when the client asked for reasoning.
func (a *answer) thought(wanted int) int {
	if a.sc.Reasoning.Set {
		return a.sc.Reasoning.N
	}
	for _, name := range []string{"reasoning_effort", "reasoning.effort", "output_config.effort"} {
		if v := a.asked.Get(name).Str; v != "" && v != "none" {
			return wanted / 4
		}
	}
	if v := a.asked.Get("thinking.type").Str; v == "enabled" || v == "adaptive" {
		return wanted / 4
	}
	if strings.Contains(a.model, "reasoning") {
		return wanted / 4
	}
	return 0
}

func (a *answer) schema() gjson.Result {
	if v := a.asked.Get("response_format.json_schema.schema"); v.Exists() {
		return v
	}
	if v := a.asked.Get("text.format.schema"); v.Exists() {
		return v
	}
	return a.asked.Get("output_config.format.schema")
}

// wantsTool: the request forces a call, or its text asks for one.
func (a *answer) wantsTool() bool {
	if len(a.asked.Get("tools").Array()) == 0 {
		return false
	}
	choice := a.asked.Get("tool_choice")
	kind := choice.Str
	if choice.IsObject() {
		kind = choice.Get("type").Str
	}
	switch kind {
	case "required", "any", "tool", "function":
		return true
	case "none":
		return false
	}
	return a.sc.Tool != "" && a.sc.Tool != "0" && !(a.sc.Rounds.Set && a.rounds() >= a.sc.Rounds.N)
}

// rounds is how many turns of the conversation are results of tools. Results of calls that
// were made at once are one turn.
func (a *answer) rounds() (n int) {
	before := false
	for _, m := range append(a.asked.Get("messages").Array(), a.asked.Get("input").Array()...) {
		is := m.Get("role").Str == "tool" || strings.HasSuffix(m.Get("type").Str, "_call_output") ||
			m.Get(`content.#(type=="tool_result")`).Exists()
		if is && !before {
			n++
		}
		before = is
	}
	return n
}

// toolCalls calls the named tool, or the first; with the scenario tool=all
// each of them once.
func (a *answer) toolCalls(seed uint64) []toolCall {
	wanted := a.asked.Get("tool_choice.function.name").Str
	if wanted == "" {
		wanted = a.asked.Get("tool_choice.name").Str
	}
	if wanted == "" && a.sc.Tool != "1" && a.sc.Tool != "all" {
		wanted = a.sc.Tool
	}
	var calls []toolCall
	for _, tool := range a.asked.Get("tools").Array() {
		function := tool.Get("function")
		if !function.Exists() {
			function = tool
		}
		name := function.Get("name").Str
		if name == "" || (wanted != "" && name != wanted) {
			continue
		}
		schema := function.Get("parameters")
		if !schema.Exists() {
			schema = function.Get("input_schema")
		}
		args := a.sc.Args
		if args == "" {
			args = exampleJSON(schema)
		}
		for range max(1, a.sc.Calls.Or(1)) {
			calls = append(calls, toolCall{
				id:   fmt.Sprintf("call_%s%d", strconv.FormatUint(mix(seed), 36), len(calls)),
				name: name,
				args: tokenise(args),
			})
		}
		if a.sc.Tool != "all" {
			break
		}
	}
	return calls
}

// steps yields the answer in order; several choices take turns.
func (a *answer) steps(yield func(step) bool) {
	for i := 0; ; i++ {
		more := false
		for k := range a.choices {
			st, ok := a.choices[k].at(i)
			if !ok {
				continue
			}
			more = true
			st.choice = k
			if !yield(st) {
				return
			}
		}
		if !more {
			return
		}
	}
}

func (ch *choice) at(i int) (step, bool) {
	if n := ch.reasoning.Len(); i < n {
		return step{kind: stepReasoning, text: ch.reasoning.At(i), tokens: 1}, true
	} else {
		i -= n
	}
	if n := ch.content.Len(); i < n {
		return step{kind: stepContent, text: ch.content.At(i), tokens: 1}, true
	} else {
		i -= n
	}
	if ch.draws > 0 {
		if i == 0 {
			return step{kind: stepPicture, tokens: ch.pictured()}, true
		}
		i--
	}
	for t, call := range ch.tools {
		if i == 0 {
			return step{kind: stepTool, tool: t, text: call.name, tokens: CountText(call.name)}, true
		}
		i--
		if n := call.args.Len(); i < n {
			return step{kind: stepArgs, tool: t, text: call.args.At(i), tokens: 1}, true
		} else {
			i -= n
		}
	}
	return step{}, false
}

// completion is the number of tokens of all choices that are written, and the
// reasoning part.
func (a *answer) completion() (total, reasoning int64) {
	for i := range a.choices {
		ch := &a.choices[i]
		reasoning += int64(ch.reasoning.Len())
		total += int64(ch.reasoning.Len()+ch.content.Len()) + ch.pictured()
		for _, call := range ch.tools {
			total += CountText(call.name) + int64(call.args.Len())
		}
	}
	return total, reasoning
}

// cached and written never exceed the prompt.
func (a *answer) cached() int64  { return min(a.sc.Cached, a.prompt) }
func (a *answer) written() int64 { return min(a.sc.Written, a.prompt-a.cached()) }
