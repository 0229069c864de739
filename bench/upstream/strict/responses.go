package strict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
)

// A request of POST /v1/responses is judged here as the public documentation of that API
// says, with the texts that the real server answers to an organisation that keeps nothing:
// requests that store something in the account, or read something from it, are refused. A
// gateway whose customers share one account must not send them.

// responseMembers are those that a request may have.
var responseMembers = strings.Fields(`access_programs background context_management conversation include input
	instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id
	prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store
	stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user`)

// leastOutput is the smallest cap that models named gpt- take.
const leastOutput = 16

// responseCheck collects the first fault of one request.
type responseCheck struct {
	f       upstream.Flaw
	calls   map[string]bool // call ids, true: answered
	pending []string
}

// responsesFault is why the real server would refuse a request with 400.
func responsesFault(asked gjson.Result) upstream.Flaw {
	c := &responseCheck{calls: map[string]bool{}}
	c.top(asked)
	c.account(asked)
	c.input(asked.Get("input"))
	c.tools(asked)
	return c.f
}

func (c *responseCheck) no(param, code, text string, args ...any) {
	if c.f.Text == "" {
		c.f = upstream.Flaw{Text: fmt.Sprintf(text, args...), Param: param, Code: code}
	}
}

func (c *responseCheck) required(o gjson.Result, path string, names ...string) {
	for _, name := range names {
		if !o.Get(name).Exists() {
			at := path + "." + name
			c.no(at, "missing_required_parameter", "Missing required parameter: '%s'.", at)
		}
	}
}

// known refuses members that an object may not have.
func (c *responseCheck) known(o gjson.Result, path string, names ...string) {
	o.ForEach(func(key, _ gjson.Result) bool {
		if !slices.Contains(names, key.Str) {
			at := path + key.Str
			c.no(at, "unknown_parameter", "Unknown parameter: '%s'.", at)
		}
		return true
	})
}

func (c *responseCheck) oneOf(v gjson.Result, at string, values ...string) {
	if v.Exists() && !slices.Contains(values, v.Str) {
		c.no(at, "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", v.Str, strings.Join(values, "', '"))
	}
}

func (c *responseCheck) top(asked gjson.Result) {
	c.known(asked, "", responseMembers...)
	if asked.Get("model").Str == "" {
		c.no("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	}
	if in := asked.Get("input"); in.Type != gjson.String && !in.IsArray() {
		c.no("input", "invalid_type", "Invalid type for 'input': expected one of an array of objects or string.")
	}
	if most := asked.Get("max_output_tokens"); strings.HasPrefix(asked.Get("model").Str, "gpt-") && most.Exists() &&
		most.Int() < leastOutput {
		c.no("max_output_tokens", "integer_below_min_value", "Invalid 'max_output_tokens': integer below minimum value. "+
			"Expected a value >= %d, but got %d instead.", leastOutput, most.Int())
	}
	c.known(asked.Get("reasoning"), "reasoning.", "effort", "summary", "generate_summary", "context", "mode")
	c.known(asked.Get("text"), "text.", "format", "verbosity")
	if format := asked.Get("text.format"); format.Get("type").Str == "json_schema" {
		c.known(format, "text.format.", "type", "name", "description", "schema", "strict")
		c.required(format, "text.format", "name", "schema")
	}
}

// account refuses requests that read or write the account of the key.
func (c *responseCheck) account(asked gjson.Result) {
	if store := asked.Get("store"); store.Type != gjson.False {
		c.no("store", "unsupported_value", "Data retention is not enabled for this organization: `store` must be false.")
	}
	for _, name := range []string{"previous_response_id", "conversation", "prompt"} {
		if asked.Get(name).Exists() {
			c.no(name, "unsupported_parameter", "'%s' cannot be used in an organization with Zero Data Retention.", name)
		}
	}
	if asked.Get("background").Bool() {
		c.no("background", "unsupported_parameter", "Background mode is not available with Zero Data Retention.")
	}
	if strings.Contains(asked.Get("input").Raw, `"file_id":`) {
		c.no("input", "not_found", "The file does not exist in this organization.")
	}
	for _, member := range []string{"vector_store_ids", "container", "connector_id"} {
		if len(asked.Get("tools.#."+member).Array()) > 0 {
			c.no("tools", "not_found", "What '%s' names does not exist in this organization.", member)
		}
	}
}

func (c *responseCheck) input(in gjson.Result) {
	for i, it := range in.Array() {
		if in.Type == gjson.String {
			return
		}
		at := "input[" + strconv.Itoa(i) + "]"
		switch kind := it.Get("type").Str; kind {
		case "", "message":
			c.message(it, at)
		case "function_call", "custom_tool_call":
			member, head := "arguments", "fc"
			if kind == "custom_tool_call" {
				member, head = "input", "ctc"
			}
			c.required(it, at, "call_id", "name", member)
			c.known(it, at+".", "type", "id", "call_id", "name", member, "status", "namespace")
			c.id(it, at, head)
			c.calls[it.Get("call_id").Str] = false
			c.pending = append(c.pending, it.Get("call_id").Str)
		case "tool_search_call", "local_shell_call":
			member, head := "arguments", "tsc"
			if kind == "local_shell_call" {
				member, head = "action", "lsh"
			}
			c.required(it, at, "call_id", member)
			c.known(it, at+".", "type", "id", "call_id", member, "status", "execution")
			c.id(it, at, head)
			c.calls[it.Get("call_id").Str] = false
			c.pending = append(c.pending, it.Get("call_id").Str)
		case "additional_tools":
			c.required(it, at, "tools")
			c.known(it, at+".", "type", "id", "role", "tools")
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
			c.required(it, at, "call_id")
			if kind == "tool_search_output" {
				c.required(it, at, "tools")
				c.known(it, at+".", "type", "id", "call_id", "status", "execution", "tools")
				c.calls[it.Get("call_id").Str] = true
				continue
			}
			c.required(it, at, "output")
			id := it.Get("call_id").Str
			if _, known := c.calls[id]; !known {
				c.no("input", "", "No tool call found for function call output with call_id %s.", id)
			}
			c.calls[id] = true
			if out := it.Get("output"); out.Type != gjson.String && !out.IsArray() {
				c.no(at+".output", "invalid_type", "Invalid type for '%s.output': expected a string or an array.", at)
			}
		case "reasoning":
			c.reasoning(it, at)
		case "item_reference":
			c.no("input", "", "Item with id '%s' not found. Items are not persisted when `store` is set to false.",
				it.Get("id").Str)
		case "web_search_call":
		default:
			c.no(at, "invalid_value", "Invalid value: '%s'.", kind)
		}
	}
	for _, id := range c.pending {
		if !c.calls[id] {
			c.no("input", "", "No tool output found for function call %s.", id)
		}
	}
}

// id refuses ids that cannot be those of an item of the kind.
func (c *responseCheck) id(it gjson.Result, at, head string) {
	if id := it.Get("id"); id.Type == gjson.String && !strings.HasPrefix(id.Str, head) {
		c.no(at+".id", "invalid_value", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", at, id.Str, head)
	}
}

func (c *responseCheck) reasoning(it gjson.Result, at string) {
	c.required(it, at, "summary")
	c.known(it, at+".", "type", "id", "summary", "content", "encrypted_content", "status")
	c.id(it, at, "rs")
	for k, part := range it.Get("summary").Array() {
		c.oneOf(part.Get("type"), fmt.Sprintf("%s.summary[%d].type", at, k), "summary_text")
		if !part.IsObject() {
			c.no(at+".summary", "invalid_type", "Invalid type for '%s.summary[%d]': expected an object.", at, k)
		}
	}
	sealed := it.Get("encrypted_content")
	if sealed.Type == gjson.String && !strings.HasPrefix(sealed.Str, upstream.SealedThought) {
		c.no("input", "invalid_encrypted_content", "The encrypted content %.12s... could not be verified.", sealed.Str)
	}
}

func (c *responseCheck) message(it gjson.Result, at string) {
	c.required(it, at, "role", "content")
	c.known(it, at+".", "type", "id", "role", "content", "status", "phase")
	role := it.Get("role").Str
	c.oneOf(it.Get("role"), at+".role", "assistant", "system", "developer", "user")
	kinds := []string{"input_text", "input_image", "input_file"}
	if role == "assistant" {
		kinds = []string{"output_text", "refusal"}
		c.id(it, at, "msg")
	}
	for k, part := range it.Get("content").Array() {
		if !part.IsObject() {
			continue
		}
		place := fmt.Sprintf("%s.content[%d]", at, k)
		c.required(part, place, "type")
		c.oneOf(part.Get("type"), place+".type", kinds...)
		switch part.Get("type").Str {
		case "input_text":
			c.required(part, place, "text")
			c.known(part, place+".", "type", "text", "prompt_cache_breakpoint")
		case "output_text":
			c.required(part, place, "text")
			c.known(part, place+".", "type", "text", "annotations", "logprobs")
		case "input_image":
			c.known(part, place+".", "type", "image_url", "file_id", "detail",
				"prompt_cache_breakpoint")
			if part.Get("image_url").Type != gjson.String {
				c.no(place+".image_url", "invalid_type", "Invalid type for '%s.image_url': expected a string.", place)
			}
		case "input_file":
			c.known(part, place+".", "type", "file_data", "file_url", "file_id", "filename", "detail",
				"prompt_cache_breakpoint")
		}
	}
}

// toolList checks tools, those of a namespace among them.
func (c *responseCheck) toolList(list gjson.Result, path, of string, names map[string]bool) {
	for i, tool := range list.Array() {
		at := path + "[" + strconv.Itoa(i) + "]"
		c.required(tool, at, "type")
		switch kind := tool.Get("type").Str; kind {
		case "function":
			c.required(tool, at, "name")
			c.known(tool, at+".", "type", "name", "description", "parameters", "strict", "defer_loading",
				"output_schema", "allowed_callers")
		case "custom":
			c.required(tool, at, "name")
			c.known(tool, at+".", "type", "name", "description", "format", "defer_loading")
		case "namespace":
			c.required(tool, at, "name", "tools")
			c.known(tool, at+".", "type", "name", "description", "tools")
			if of != "" {
				c.no(at, "invalid_value", "A namespace cannot stand in another one.")
			}
			c.toolList(tool.Get("tools"), at+".tools", tool.Get("name").Str, names)
		case "tool_search":
			c.known(tool, at+".", "type", "execution", "description", "parameters")
			if tool.Get("execution").Str != "client" {
				c.no(at, "unsupported_value", "Tools of type 'tool_search' are disabled for this project.")
			}
		case "local_shell":
			c.known(tool, at+".", "type")
		default:
			// They are carried out at the expense of the owner of the account.
			c.no(at, "unsupported_value", "Tools of type '%s' are disabled for this project.", kind)
		}
		names[of+" "+tool.Get("name").Str] = true
	}
}

func (c *responseCheck) tools(asked gjson.Result) {
	names := map[string]bool{}
	c.toolList(asked.Get("tools"), "tools", "", names)
	for i, it := range asked.Get("input").Array() {
		c.toolList(it.Get("tools"), "input["+strconv.Itoa(i)+"].tools", "", names)
	}
	if choice := asked.Get("tool_choice"); choice.Get("type").Str == "function" && !names[choice.Get("namespace").Str+" "+choice.Get("name").Str] {
		c.no("tool_choice", "invalid_value", "Tool choice '%s' not found in 'tools' parameter.", choice.Get("name").Str)
	}
}
