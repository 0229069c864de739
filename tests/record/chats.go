package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

func chatBody(model, text, more string) string {
	content, _ := json.Marshal(text)
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(content) + `}]` + more + `}`
}

// chat posts a chat with one message; see post.
func (l *lab) chat(name, key, model, text, more string, headers ...string) *answer {
	return l.post(name, "/chat/completions", key, chatBody(model, text, more), headers...)
}

// scenarios are the ways in which a simulated upstream answers a chat. Scenarios of
// chance are not among them: a reset loses unsent bytes, and a stream that breaks off has
// a pause before, or it might fail before it began.
var scenarios = lines("scenarios")

// chats are all scenarios, whole and streamed, at both dialects.
func (l *lab) chats(c *customer) {
	for _, model := range []string{"chat-openai", "chat-anthropic"} {
		for _, s := range scenarios {
			for _, more := range []string{"", `,"stream":true`,
				`,"stream":true,"stream_options":{"include_usage":true}`} {
				if strings.Contains(more, "usage") && strings.HasPrefix(s, "status=") {
					continue
				}
				l.chat(model+" "+s+more, c.worker, model, "[[sim "+s+"]] Hello", more+`,"max_completion_tokens":40`)
			}
		}
	}
	for _, s := range scenarios {
		if !strings.Contains(s, "=") {
			continue
		}
		l.chat("chat-slice "+s, c.worker, "chat-slice", "[[sim "+s+"]] Hello",
			`,"stream":true,"max_completion_tokens":300`)
	}
	id := 0
	for _, model := range []string{"chat-twice", "chat-mixed"} {
		for _, s := range scenarios {
			if !strings.HasPrefix(s, "status=") && !strings.Contains(s, "wrong=") && !strings.Contains(s, "cut") &&
				s != "empty=1" && s != "garbage=1" && !strings.HasPrefix(s, "error_event") {
				continue
			}
			for _, more := range []string{"", `,"stream":true`} {
				// The first target fails, the second one does not; and both do.
				id++
				if strings.HasPrefix(s, "status=") {
					l.chat(fmt.Sprint(model, " first fails ", s, more), c.worker, model,
						fmt.Sprintf("[[sim id=first%d fail_first=1 %s]] Hello", id, s), more)
				}
				l.chat(fmt.Sprint(model, " both fail ", s, more), c.worker, model, "[[sim "+s+"]] Hello", more)
			}
		}
	}
	for _, model := range lines("chat-models") {
		for _, more := range []string{"", `,"stream":true`} {
			l.chat("model "+model+more, c.worker, model, "[[sim reasoning=3]] Hello", more)
		}
	}
}

// odd are values that a member may have, rightly or wrongly.
var odd = []string{`null`, `true`, `"x"`, `""`, `0`, `1`, `1.5`, `-1`, `1e400`, `{}`, `[]`, `["x"]`, `[1]`, `{"x":1}`}

// chatRules are all members of a chat body with odd values, and faults in places of their own.
func (l *lab) chatRules(c *customer) {
	post := func(name, body string) {
		l.post("chat: "+name, "/chat/completions", c.worker, body)
	}
	const base = `"model":"chat-openai","messages":[{"role":"user","content":"[[sim tokens=2]] x"}]`
	for _, member := range strings.Fields(
		`stream stream_options frequency_penalty presence_penalty repetition_penalty max_completion_tokens max_tokens n
		response_format seed stop temperature top_p max_temp min_temp min_p top_k tools tool_choice user reasoning_effort reasoning prompt_cache_key
		prompt_cache_retention store text verbosity include metadata logprobs top_logprobs parallel_tool_calls stop_token_ids fallbacks anon_user_id
		svc_parameters acme_parameters service_tier best_of logit_bias safety_identifier prediction modalities audio web_search_options functions function_call unknown_member`) {
		for _, v := range odd {
			post(member+" "+v, `{`+base+`,"`+member+`":`+v+`}`)
		}
	}
	for _, v := range odd {
		post("model "+v, `{"model":`+v+`,"messages":[{"role":"user","content":"x"}]}`)
		post("messages "+v, `{"model":"chat-openai","messages":`+v+`}`)
		post("message "+v, `{"model":"chat-openai","messages":[`+v+`]}`)
		post("content "+v, `{"model":"chat-openai","messages":[{"role":"user","content":`+v+`}]}`)
		post("role "+v, `{"model":"chat-openai","messages":[{"role":`+v+`,"content":"x"}]}`)
		post("part "+v, `{"model":"chat-openai","messages":[{"role":"user","content":[`+v+`]}]}`)
		post("tool "+v, `{`+base+`,"tools":[`+v+`]}`)
		post("brand member "+v, `{`+base+`,"svc_parameters":{"strip_thinking_response":`+v+`}}`)
		post("web search "+v, `{`+base+`,"svc_parameters":{"enable_web_search":`+v+`}}`)
		post("character "+v, `{`+base+`,"svc_parameters":{"character_slug":`+v+`}}`)
	}
	const text = `{"type":"text","text":"[[sim tokens=2]] look"}`
	for _, part := range lines("chat-parts", "text", text) {
		for _, model := range []string{"chat-openai", "chat-anthropic", "chat-plain", "chat-loose", "chat-quirky"} {
			post(model+" part "+part, `{"model":"`+model+`","messages":[{"role":"user","content":[`+text+`,`+part+
				`]}]}`)
		}
		post("system part "+part, `{"model":"chat-openai","messages":[{"role":"system","content":[`+part+
			`]},{"role":"user","content":"x"}]}`)
		post("assistant part "+part,
			`{"model":"chat-openai","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[`+part+
				`]}]}`)
	}
	for _, b := range lines("chat-bodies", "base", base) {
		post("body "+b[:min(len(b), 150)], b)
	}
	for _, more := range lines("chat-members") {
		for _, model := range []string{"chat-openai", "chat-anthropic", "chat-quirky", "chat-plain", "chat-loose",
			"chat-adaptive"} {
			post(model+more, `{"model":"`+model+
				`","messages":[{"role":"user","content":"[[sim tokens=4 reasoning=2]] x"}]`+more+`}`)
		}
		post("streamed "+more,
			`{"model":"chat-openai","messages":[{"role":"user","content":"[[sim tokens=4]] x"}],"stream":true`+more+`}`)
	}
	for _, m := range lines("chat-messages") {
		for _, model := range []string{"chat-openai", "chat-anthropic", "chat-quirky", "chat-loose"} {
			post(model+" messages "+m[:min(len(m), 150)], `{"model":"`+model+`","messages":[`+m+`]}`)
		}
	}
}

// moreChats are those whose heads differ, and those whose clients leave; drains: their
// answers are read on, as billing.on_client_gone says.
func (l *lab) moreChats(c *customer, drains bool) {
	for _, h := range lines("chat-heads") {
		for _, more := range []string{"", `,"stream":true`} {
			l.chat("head "+h+more, c.worker, "chat-openai", "[[sim tokens=30]] hello", more, h)
		}
		l.chat("refused with head "+h, c.worker, "nobody", "hello", "", h)
		l.chat("large with head "+h, c.worker, "chat-openai", "[[sim big=90000]] hello", "", h)
	}
	// A client that leaves a model held in full is answered to the end without it; of a
	// model held in slices the upstream is cut off after its hold_after tokens.
	for _, f := range []struct{ model, text string }{
		{"chat-openai", "[[sim tokens=60 gap_ms=3]] hello"},
		{"chat-anthropic", "[[sim tokens=60 reasoning=5 gap_ms=3]] hello"},
		{"chat-slice", "[[sim tokens=9 hold_after=4]] hello"}, {"chat-slice", "[[sim tokens=200 hold_after=60]] hello"},
	} {
		leave := 500
		if strings.Contains(f.text, "hold_after") {
			leave = leaveIdle
		}
		if drains {
			leave = 500
			f.text = strings.ReplaceAll(f.text, "hold_after", "gap_ms=1 cached")
		}
		l.do(step{name: f.model + " left in a stream " + f.text, path: "/chat/completions", key: c.worker, leave: leave,
			body: chatBody(f.model, f.text, `,"stream":true,"max_completion_tokens":250`)})
	}
	for _, more := range []string{"", `,"stream":true`} {
		l.do(step{name: "left before an answer" + more, path: "/chat/completions", key: c.worker, leave: -1,
			body: chatBody("chat-openai", "[[sim tokens=9 delay_ms=1000]] hello", more)})
	}
	l.get("balance after those who left", "/billing/balance", c.admin)
}

// compatChats are a few scenarios of each kind, with the switches turned.
func (l *lab) compatChats(c *customer) {
	for i, s := range scenarios {
		for _, model := range []string{"chat-openai", "chat-anthropic"} {
			if i%2 == 0 || !strings.HasPrefix(s, "status=") {
				l.chat(model+" "+s, c.worker, model, "[[sim "+s+"]] Hello", "")
			}
			if i%2 == 1 || !strings.HasPrefix(s, "status=") {
				l.chat(model+" "+s+" streamed", c.worker, model, "[[sim "+s+"]] Hello",
					`,"stream":true,"acme_parameters":{"strip_thinking_response":true}`)
			}
		}
	}
}

// keyed are requests with an Idempotency-Key.
func (l *lab) keyed(c *customer) {
	post := func(name, path, id, body string) {
		l.post("keyed "+name, path, c.worker, body, "Idempotency-Key: "+id)
	}
	const chain = "/crypto/rpc/ethereum-mainnet"
	for i, f := range []struct{ path, body string }{
		{"/chat/completions", chatBody("chat-openai", "[[sim tokens=5]] H", "")},
		{"/chat/completions", chatBody("chat-openai", "[[sim tokens=5]] H", `,"stream":true`)},
		{"/chat/completions", chatBody("chat-anthropic", "[[sim tokens=5]] H", `,"stream":true`)},
		{"/chat/completions", chatBody("chat-openai", "[[sim big=90000]] H", "")},
		{"/chat/completions", chatBody("chat-openai", "[[sim status=500]] H", "")},
		{"/chat/completions", chatBody("chat-openai", "[[sim status=400]] H", "")},
		{"/chat/completions", chatBody("nobody", "H", "")},
		{"/embeddings", `{"model":"embed-1","input":"H","dimensions":4}`},
		{"/image/generate", `{"model":"openai-paint","prompt":"H","width":64,"height":64}`},
		{"/images/generations", `{"model":"openai-paint","prompt":"H"}`},
		{chain, `{"jsonrpc":"2.0","id":7,"method":"eth_call","params":[1,"H"]}`},
		{chain, `[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1,"H"]},{"jsonrpc":"2.0","id":2,"method":"eth_estimateGas","params":["revert"]}]`}, {chain, `{"jsonrpc":"2.0","id":7,"method":"eth_sendRawTransaction","params":["0x0102"]}`},
	} {
		id := fmt.Sprint("key-", i)
		post("first", f.path, id, f.body)
		post("again", f.path, id, f.body)
		post("another body", f.path, id, strings.Replace(f.body, "H", "J", 1))
		post("another path", "/embeddings", id, f.body)
	}
	for _, id := range []string{"", "a b", strings.Repeat("x", 255), strings.Repeat("x", 256), "ü",
		"a\r\nIdempotency-Key: b"} {
		post(fmt.Sprintf("%.20q", id), "/embeddings", id, `{"model":"embed-1","input":"K","dimensions":4}`)
	}
}

// embeddings are texts of all forms.
func (l *lab) embeddings(c *customer) {
	post := func(body string) {
		l.post("embeddings "+body[:min(len(body), 150)], "/embeddings", c.worker, body)
	}
	for _, member := range []string{"model", "input", "dimensions", "encoding_format", "user", "unknown"} {
		for _, v := range append(odd, `"float"`, `"base64"`, `["a","b"]`, `[[1,2],[3]]`, `8`, `["a",1]`, `[""]`) {
			switch member {
			case "model":
				post(`{"model":` + v + `,"input":"a"}`)
			case "input":
				post(`{"model":"embed-1","dimensions":4,"input":` + v + `}`)
			case "dimensions":
				post(`{"model":"embed-1","input":"a","dimensions":` + v + `}`)
			default:
				post(`{"model":"embed-1","input":"a","dimensions":4,"` + member + `":` + v + `}`)
			}
		}
	}
	for _, s := range scenarios {
		if strings.HasPrefix(s, "status=") || strings.HasPrefix(s, "usage=") || strings.HasPrefix(s, "wrong=") ||
			strings.Contains(s, "cut") || strings.Contains(s, "encoding") || s == "empty=1" || s == "garbage=1" ||
			strings.Contains(s, "dup") || s == "close=1" || strings.HasPrefix(s, "chunk") {
			post(`{"model":"embed-1","dimensions":4,"input":"[[sim ` + s + `]] a"}`)
		}
	}
	for _, b := range lines("embedding-bodies") {
		post(b)
	}
}
