package responses

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/responses/responsestest"
)

// conversation is a random one of an agent: its tools, and the calls so far.
type conversation struct {
	*rand.Rand
	tools   []string
	kinds   []toolKind
	spaces  []string
	names   []string
	history []string
}

func (c *conversation) word() string {
	words := []string{"read", "a", "get_page", "x-y", "multi agent", "naïve", "dot.ted", "a__b", strings.Repeat("long", 20), "exec", "tool_search", "\"q\"", "a\\b"}
	return words[c.IntN(len(words))]
}

// newConversation declares random tools, some of them with the same names.
func newConversation(seed uint64) *conversation {
	c := &conversation{Rand: rand.New(rand.NewPCG(seed, 7))}
	one := func(space string) string {
		kind, name := functionTool, c.word()
		text, _ := json.Marshal(name)
		declared := `{"type":"function","name":` + string(text) + `,"parameters":{"type":"object"}}`
		if c.IntN(2) == 0 {
			kind, declared = customTool, `{"type":"custom","name":`+string(text)+`}`
		}
		c.kinds, c.spaces, c.names = append(c.kinds, kind), append(c.spaces, space), append(c.names, name)
		return declared
	}
	for range c.IntN(4) + 1 {
		switch c.IntN(4) {
		case 0:
			c.tools = append(c.tools, one(""))
		case 1:
			c.tools = append(c.tools, `{"type":"tool_search","execution":"client"}`)
			c.kinds, c.spaces, c.names = append(c.kinds, searchTool), append(c.spaces, ""), append(c.names, "tool_search")
		default:
			space := c.word()
			if c.IntN(4) == 0 {
				space = plainSpace
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

// input is what a model may write to a tool.
func (c *conversation) input() string {
	return []string{"", "ls -l", "*** Begin\n+é \"x\"\n", `{"a":[1]}`, "\\n", "😀\t"}[c.IntN(6)]
}

// A tool that an agent declares, by whatever name, is called by that name, whole and
// streamed, in the published types; and what the agent hands back is the model's own call.
func TestConversationsWithToolsComeBack(t *testing.T) {
	t.Parallel()
	rounds := 300
	if n, err := strconv.Atoi(os.Getenv("FAREBOX_CALLS")); err == nil {
		rounds = n
	}
	for seed := range uint64(rounds) {
		c := newConversation(seed)
		for turn := range 3 {
			body := `{"model":"m","tools":[` + strings.Join(c.tools, ",") + `],"input":[{"role":"user","content":"x"}` + strings.Join(c.history, "") + `]}`
			f := formOf(t, sdk, body)
			chat := chatOf(t, f)
			if p := f.Problems(); len(p) > 0 {
				t.Fatalf("seed %d: %s\nis refused: %v", seed, body, p)
			}
			at := c.IntN(len(c.names))
			of := f.toolNamed(c.kinds[at], []byte(c.spaces[at]), []byte(c.names[at]))
			if of == nil || of.kind != c.kinds[at] {
				t.Fatalf("seed %d: no tool %q %q of kind %d", seed, c.spaces[at], c.names[at], c.kinds[at])
			}
			input := c.input()
			arguments := `{"q": ` + quoted(input) + `}`
			if of.kind == customTool {
				arguments = `{"input": ` + quoted(input) + `}`
			}
			id := fmt.Sprint("call-", turn)
			var answer string
			if c.IntN(2) == 0 {
				answer = answered(t, sdk, body, completion(`"content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":`+
					quoted(string(of.flat))+`,"arguments":`+quoted(arguments)+`}}]`, "tool_calls"))
				if _, err := responsestest.CheckResponse([]byte(answer)); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, answer)
				}
			} else {
				cut := c.IntN(len(arguments) + 1)
				for cut < len(arguments) && arguments[cut]&0xc0 == 0x80 {
					cut++
				}
				stream := streamed(f, chat, delta(`"tool_calls":[{"index":0,"id":"`+id+`","function":{"name":`+quoted(string(of.flat))+
					`,"arguments":`+quoted(arguments[:cut])+`}}]`)+delta(`"tool_calls":[{"index":0,"function":{"arguments":`+quoted(arguments[cut:])+`}}]`)+
					finish("tool_calls")+usageChunk+done)
				r, err := responsestest.Check(stream)
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, stream)
				}
				answer = r.RawJSON()
			}
			item := gjson.Get(answer, "output.0")
			want := map[toolKind]string{functionTool: "function_call", customTool: "custom_tool_call", searchTool: "tool_search_call"}[of.kind]
			if item.Get("type").Str != want || of.kind != searchTool && (item.Get("name").Str != c.names[at] || item.Get("namespace").Str != c.spaces[at]) ||
				of.kind == customTool && item.Get("input").Str != input || of.kind == functionTool && item.Get("arguments").Str != arguments {
				t.Fatalf("seed %d: the call of %q %q with %q is told as %s", seed, c.spaces[at], c.names[at], input, item.Raw)
			}
			result := `{"type":"` + want + `_output","call_id":"` + id + `","output":"done"}`
			if of.kind == searchTool {
				result = `{"type":"tool_search_output","call_id":"` + id + `","tools":[]}`
			}
			c.history = append(c.history, ","+item.Raw, ","+result)
			again := formOf(t, sdk, `{"model":"m","tools":[`+strings.Join(c.tools, ",")+`],"input":[`+item.Raw+`,`+result+`]}`)
			sent := gjson.GetBytes(chatOf(t, again).Body, "messages.0.tool_calls.0.function")
			if sent.Get("name").Str != string(of.flat) || compact(t, sent.Get("arguments").Str) != compact(t, arguments) {
				t.Fatalf("seed %d: %s of %q is handed back as %s", seed, item.Raw, of.flat, sent.Raw)
			}
			again.Release()
			f.Release()
		}
	}
}

func quoted(text string) string { return string(dialect.AppendString(nil, text)) }

// streamed is what a client gets of chunks.
func streamed(f *Form, c *dialect.Chat, chunks string) string {
	s := f.Stream(c)
	defer s.Release()
	out := string(s.Pass([]byte(chunks)))
	return out + string(s.Finish())
}
