package responses_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/tests/oracles/responsestest"
)

// conversation is a random one of an agent: its tools, and the calls so far.
type conversation struct {
	*rand.Rand
	tools    []string
	declared map[called]bool
	history  []string
}

// called is a tool as the item of a call names it.
type called struct{ kind, space, name string }

func (c *conversation) word() string {
	words := []string{"read", "a", "get_page", "x-y", "multi agent", "naïve", "dot.ted", "a__b", strings.Repeat("long", 20), "exec", "tool_search", "\"q\"", "a\\b"}
	return words[c.IntN(len(words))]
}

// newConversation declares random tools, some of them with the same names.
func newConversation(seed uint64) *conversation {
	c := &conversation{Rand: rand.New(rand.NewPCG(seed, 7)), declared: map[called]bool{}}
	one := func(space string) string {
		kind, name := "function_call", c.word()
		text, _ := json.Marshal(name)
		declared := `{"type":"function","name":` + string(text) + `,"parameters":{"type":"object"}}`
		if c.IntN(2) == 0 {
			kind, declared = "custom_tool_call", `{"type":"custom","name":`+string(text)+`}`
		}
		c.declared[called{kind, space, name}] = true
		return declared
	}
	for range c.IntN(4) + 1 {
		switch c.IntN(4) {
		case 0:
			c.tools = append(c.tools, one(""))
		case 1:
			c.tools = append(c.tools, `{"type":"tool_search","execution":"client"}`)
			c.declared[called{kind: "tool_search_call"}] = true
		default:
			space := c.word()
			if c.IntN(4) == 0 {
				space = "functions" // where names stay as they are
			}
			text, _ := json.Marshal(space)
			var list []string
			for range c.IntN(3) + 1 {
				list = append(list, one(space))
			}
			c.tools = append(c.tools, `{"type":"namespace","name":`+string(text)+`,"description":"d","tools":[`+strings.Join(list, ",")+`]}`)
		}
	}
	return c
}

// input is a model's input for a tool.
func (c *conversation) input() string {
	return []string{"", "ls -l", "*** Begin\n+é \"x\"\n", `{"a":[1]}`, "\\n", "😀\t"}[c.IntN(6)]
}

// A tool that an agent declares, by whatever name, is called by that name, whole and
// streamed, in the published types; and the agent hands back the model's own call.
func TestConversationsWithToolsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(servers.Campaign(300)) {
		c := newConversation(seed)
		names := map[called]string{} // by which the model calls a tool
		for turn := range 3 {
			body := `{"model":"m","tools":[` + strings.Join(c.tools, ",") + `],"input":[{"role":"user","content":"x"}` + strings.Join(c.history, "") + `]}`
			f := formOf(t, sdk, body)
			chat := chatOf(t, f)
			if p := f.Problems(); len(p) > 0 {
				t.Fatalf("seed %d: %s\nis refused: %v", seed, body, p)
			}
			offered := gjson.GetBytes(chat.Body, "tools").Array()
			if len(offered) != len(c.declared) {
				t.Fatalf("seed %d: of %v the model sees %s", seed, c.declared, chat.Body)
			}
			tool := offered[c.IntN(len(offered))].Get("function")
			flat := tool.Get("name").Str
			input := c.input()
			arguments := `{"q": ` + quoted(input) + `}`
			if tool.Get("parameters.properties.input").Exists() {
				arguments = `{"input": ` + quoted(input) + `}`
			}
			id := fmt.Sprint("call-", turn)
			var answer string
			if c.IntN(2) == 0 {
				answer = answered(t, sdk, body, completion(`"content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":`+
					quoted(flat)+`,"arguments":`+quoted(arguments)+`}}]`, "tool_calls"))
				if _, err := responsestest.CheckResponse([]byte(answer)); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, answer)
				}
			} else {
				cut := c.IntN(len(arguments) + 1)
				for cut < len(arguments) && arguments[cut]&0xc0 == 0x80 {
					cut++
				}
				stream := streamed(f, chat, delta(`"tool_calls":[{"index":0,"id":"`+id+`","function":{"name":`+quoted(flat)+
					`,"arguments":`+quoted(arguments[:cut])+`}}]`)+delta(`"tool_calls":[{"index":0,"function":{"arguments":`+quoted(arguments[cut:])+`}}]`)+
					finish("tool_calls")+usageChunk+done)
				r, err := responsestest.Check(stream)
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, stream)
				}
				answer = r.RawJSON()
			}
			item := gjson.Get(answer, "output.0")
			kind := item.Get("type").Str
			of := called{kind, item.Get("namespace").Str, item.Get("name").Str}
			if before, told := names[of]; !c.declared[of] || told && before != flat || kind == "custom_tool_call" && item.Get("input").Str != input ||
				kind == "function_call" && item.Get("arguments").Str != arguments {
				t.Fatalf("seed %d: the call of %q with %q became %s", seed, flat, input, item.Raw)
			}
			names[of] = flat
			result := `{"type":"` + kind + `_output","call_id":"` + id + `","output":"done"}`
			if kind == "tool_search_call" {
				result = `{"type":"tool_search_output","call_id":"` + id + `","tools":[]}`
			}
			c.history = append(c.history, ","+item.Raw, ","+result)
			again := formOf(t, sdk, `{"model":"m","tools":[`+strings.Join(c.tools, ",")+`],"input":[`+item.Raw+`,`+result+`]}`)
			sent := gjson.GetBytes(chatOf(t, again).Body, "messages.0.tool_calls.0.function")
			if sent.Get("name").Str != flat || compact(t, sent.Get("arguments").Str) != compact(t, arguments) {
				t.Fatalf("seed %d: %s of %q is handed back as %s", seed, item.Raw, flat, sent.Raw)
			}
			again.Release()
			f.Release()
		}
	}
}
