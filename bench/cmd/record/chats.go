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

// scenarios are the ways in which a simulated upstream answers a chat. What
// depends on chance is not among them: a reset loses what was sent before it, and
// a stream that breaks off has a pause before, or it might fail before it began.
var scenarios = strings.Split(strings.TrimSpace(`
tokens=9
tokens=1
tokens=200
tokens=0
reasoning=8
reasoning=8 thought_as=reasoning
reasoning=8 thought_as=thinking
reasoning=8 thought_as=redacted
tool=1
tool=get_weather
unicode=1
unicode=1 split=utf8
cached=3
cached=3 cache_write=2
cache_write=4
big=20000
big=100000
events_per_write=4
chunk=7
split=crlf crlf=1
split=byte tokens=5
split=frame
crlf=1
comments=1
usage=none
usage=null
usage=late
usage=choices0
usage=top
usage=zero
usage=zerofirst
usage=negative
usage=huge
usage=every
usage=early
usage=afterdone
usage=twice
usage=contradict
usage=less
usage=totalonly
usage=over
encoding=gzip
dup_headers=1
dup_headers=2
interim=100
interim=103
close=1
no_done=1
garbage=1
empty=1
cut=fin cut_after=0
cut=rst cut_after=0
cut=fin cut_after=2 tokens=4 gap_ms=50
truncate=1 tokens=4 gap_ms=50
error_event=1 tokens=4 gap_ms=50
error_event=1 error_after=0 tokens=4 gap_ms=50
error_event=1 error_after=2 tokens=4 gap_ms=50
hidden=5
hidden=5 hidden_in=inside
hidden=5 hidden_in=beside
hidden=5 hidden_in=total
hidden=5 hidden_in=nowhere
said_in=content
said_in=array
said_in=function_call
said_in=audio
said_in=refusal
said_in=unknown
ignore_cap=1 tokens=80
wrong=html
wrong=text
wrong=half
wrong=array
wrong=bare
html=1
echo=hello
status=500 html=1
status=400 kind=context
status=400 kind=policy
status=403 kind=policy
status=429 kind=quota
status=429 retry_after=1
status=503 retry_after=3
status=400
status=401
status=402
status=403
status=404
status=405
status=406
status=408
status=409
status=410
status=413
status=415
status=418
status=421
status=422
status=425
status=429
status=431
status=451
status=500
status=501
status=502
status=503
status=504
status=529
status=599
no-such-word
`), "\n")

// chats are all scenarios, whole and streamed, at both dialects.
func (l *lab) chats(c *customer) {
	for _, model := range []string{"chat-openai", "chat-anthropic"} {
		for _, s := range scenarios {
			for _, more := range []string{"", `,"stream":true`,
				`,"stream":true,"stream_options":{"include_usage":true}`} {
				if strings.Contains(more, "usage") && strings.HasPrefix(s, "status=") {
					continue
				}
				l.do(step{name: model + " " + s + more, path: "/chat/completions", key: c.worker,
					body: chatBody(model, "[[sim "+s+"]] Hello", more+`,"max_completion_tokens":40`)})
			}
		}
	}
	for _, s := range scenarios {
		if !strings.Contains(s, "=") {
			continue
		}
		l.do(step{name: "chat-slice " + s, path: "/chat/completions", key: c.worker,
			body: chatBody("chat-slice", "[[sim "+s+"]] Hello", `,"stream":true,"max_completion_tokens":300`)})
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
					l.do(step{name: fmt.Sprint(model, " first fails ", s, more), path: "/chat/completions",
						key:  c.worker,
						body: chatBody(model, fmt.Sprintf("[[sim id=first%d fail_first=1 %s]] Hello", id, s), more)})
				}
				l.do(step{name: fmt.Sprint(model, " both fail ", s, more), path: "/chat/completions", key: c.worker,
					body: chatBody(model, "[[sim "+s+"]] Hello", more)})
			}
		}
	}
	for _, model := range []string{"chat-closed", "chat-nowhere", "chat-quirky", "chat-loose", "chat-slice",
		"chat-adaptive", "chat-free", "chat-offline", "chat-gone", "chat-remapped",
		"chat-leaving", "chat-later", "gpt-4.1", "default", "default_code", "fastest", "claude-x", "no-such-model",
		"CHAT-OPENAI", "embed-1", "tiers", "", "chat-openai:strip_thinking_response=true",
		"chat-openai:disable_thinking=true&strip_thinking_response=true", "chat-openai:x=y", "chat-openai:",
		"chat-openai:enable_web_search=off"} {
		for _, more := range []string{"", `,"stream":true`} {
			l.do(step{name: "model " + model + more, path: "/chat/completions", key: c.worker,
				body: chatBody(model, "[[sim reasoning=3]] Hello", more)})
		}
	}
}

// odd are values that a member may have, rightly or wrongly.
var odd = []string{`null`, `true`, `"x"`, `""`, `0`, `1`, `1.5`, `-1`, `1e400`, `{}`, `[]`, `["x"]`, `[1]`, `{"x":1}`}

// chatRules are all members of a chat body with odd values, and what is wrong
// in places of its own.
func (l *lab) chatRules(c *customer) {
	post := func(name, body string) {
		l.do(step{name: "chat: " + name, path: "/chat/completions", key: c.worker, body: body})
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
	for _, part := range []string{
		text, `{"type":"text"}`, `{"type":"text","text":""}`, `{"type":"image_url"}`,
		`{"type":"image_url","image_url":{}}`,
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`,
		`{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}`,
		`{"type":"image_url","image_url":{"url":"http://127.0.0.1/a.png"}}`,
		`{"type":"image_url","image_url":{"url":"http://10.0.0.1/a"}}`,
		`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`,
		`{"type":"image_url","image_url":"https://example.com/a.png"}`,
		`{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}`,
		`{"type":"input_audio","input_audio":{"data":"aGk=","format":"x"}}`, `{"type":"input_audio"}`,
		`{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}`, `{"type":"video_url"}`,
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk=","filename":"a.pdf"}}`,
		`{"type":"file","file":{"file_id":"x"}}`,
		`{"type":"refusal","refusal":"no"}`, `{"type":"smell"}`,
		`{"type":"text","text":"[[sim tokens=2]] x","cache_control":{"type":"ephemeral"}}`,
	} {
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
	for _, b := range []string{
		``, ` `, `x`, `{`, `[]`, `null`, `"x"`, `{}`, `{}{}`, `{` + base, `{` + base + `}}`, `{` + base + `,}`,
		`{` + base + `,"a":1,"a":2}`, `{"model":"chat-free",` + base + `}`, `{` + base + `,"Model":"chat-free"}`,
		`{"mod\u0065l":"chat-free",` + base + `}`, `{` + base + `,"serv\u0069ce_tier":"priority"}`,
		`{` + base + `,"Service_Tier":"priority"}`, `{` + base + `,"best_of":1,"best_of":4}`,
		"{" + base + ",\"x\":\"a\nb\"}", "{" + base + ",\"x\":\"a\x01b\"}",
		`{"model":"chat-openai","messages":[{"role":"user","content":"a` + "\xc3" + `b"}]}`, "\ufeff{" + base + "}",
		"{" + base + ",\"x\":\"\\ud800\"}", "{" + base + `,"x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) +
			`}`,
		`{"model":"chat-openai","messages":[{"role":"user","content":"x","content":"y"}]}`,
		`{"model":"chat-openai","messages":[{"role":"robot","content":"x"}]}`,
		`{"model":"chat-openai","messages":[{"role":"user"}]}`,
		`{"model":"chat-openai","messages":[{"role":"assistant","content":null}]}`,
		`{"model":"chat-openai","messages":[{"role":"tool","content":"x"}]}`,
		`{"model":"chat-openai","messages":["x",1,{"role":1,"content":2,"name":3}]}`,
		`{"model":5,"messages":1,"temperature":"x","n":0,"top_p":7,"stop":[1,2,3,4,5],"tool_choice":"x","seed":0.5,"user":1,"store":2,"metadata":3,"include":4,"logprobs":5,"top_k":-1,"min_p":3,"max_temp":9,"min_temp":9,"tools":6,"text":7,"verbosity":8,"reasoning":9,"stream":10}`,
	} {
		post("body "+b[:min(len(b), 150)], b)
	}
	for _, more := range []string{
		`,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}},"strict":true}}],"tool_choice":"auto","parallel_tool_calls":false`,
		`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}`, `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`,
		`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"`,
		`,"tool_choice":{"type":"function"}`,
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`,
		`,"tools":[{"type":"custom","custom":{"name":"x"}}]`, `,"tools":[{"type":"web_search"}]`,
		`,"tools":[{"type":"function"}]`,
		`,"response_format":{"type":"json_object"}`, `,"response_format":{"type":"text"}`,
		`,"response_format":{"type":"xml"}`, `,"response_format":{"type":"json_schema"}`,
		`,"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`,
		`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{}}}}`,
		`,"reasoning_effort":"low"`, `,"reasoning_effort":"none"`, `,"reasoning_effort":"max"`,
		`,"reasoning":{"effort":"high"}`, `,"reasoning":{"effort":"high","summary":"auto","enabled":true}`,
		`,"reasoning":{"enabled":false}`, `,"reasoning":{"summary":"long"}`,
		`,"reasoning_effort":"low","reasoning":{"effort":"high"}`,
		`,"stop":"x"`, `,"stop":["a","b","c","d"]`, `,"stop":["a","b","c","d","e"]`, `,"n":3`, `,"n":128`, `,"n":129`,
		`,"max_completion_tokens":1000`, `,"max_completion_tokens":1001`, `,"max_completion_tokens":3`,
		`,"max_tokens":3`, `,"max_tokens":3,"max_completion_tokens":4`,
		`,"temperature":2.1`, `,"temperature":0.123456789`, `,"temperature":1e0`, `,"logprobs":true,"top_logprobs":2`,
		`,"top_logprobs":2`, `,"prompt_cache_retention":"24h"`, `,"prompt_cache_retention":"in_memory"`,
		`,"verbosity":"low","text":{"verbosity":"high"}`, `,"logit_bias":{"1":2}`,
		`,"fallbacks":[{"model":"chat-free"}]`, `,"fallbacks":[{"model":"x"}]`, `,"fallbacks":[{}]`,
		`,"service_tier":"priority","web_search_options":{},"prediction":{"type":"content","content":"x"}`,
		`,"metadata":{"a":"b"},"user":"me","anon_user_id":"u"`, `,"stream_options":{"include_usage":true}`,
		`,"svc_parameters":{}`, `,"svc_parameters":{"strip_thinking_response":true}`,
		`,"svc_parameters":{"disable_thinking":true}`, `,"svc_parameters":{"include_svc_system_prompt":false}`,
		`,"acme_parameters":{"include_acme_system_prompt":false}`,
		`,"svc_parameters":{"enable_web_search":"auto","enable_web_citations":true}`, `,"svc_parameters":{"x":1}`,
		`,"svc_parameters":{"enable_e2ee":true}`, `,"svc_parameters":{"enable_x_search":true}`,
		`,"svc_parameters":{"enable_web_scraping":true}`,
	} {
		for _, model := range []string{"chat-openai", "chat-anthropic", "chat-quirky", "chat-plain", "chat-loose",
			"chat-adaptive"} {
			post(model+more, `{"model":"`+model+
				`","messages":[{"role":"user","content":"[[sim tokens=4 reasoning=2]] x"}]`+more+`}`)
		}
		post("streamed "+more, `{"model":"chat-openai","messages":[{"role":"user","content":"[[sim tokens=4]] x"}],"stream":true`+more+`}`)
	}
	for _, m := range []string{
		`{"role":"system","content":"be short"},{"role":"user","content":"[[sim tokens=3]] x"}`,
		`{"role":"developer","content":"be short"},{"role":"user","content":"[[sim tokens=3]] x"}`,
		`{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"[[sim tokens=3]] x"}`,
		`{"role":"user","content":"[[sim tokens=3]] x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}`,
		`{"role":"user","content":"[[sim tokens=3]] x"},{"role":"assistant","content":"a","tool_calls":[{"id":"c1"}]},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"r"}]}`,
		`{"role":"user","name":"me","content":"[[sim tokens=3]] x"},{"role":"assistant","content":"a"},{"role":"user","content":"y"}`, `{"role":"assistant","content":"a"}`, `{"role":"system","content":"only"}`, `{"role":"user","content":"` + strings.Repeat("long ", 3500) + ` [[sim tokens=3]]"}`, `{"role":"user","content":"` + strings.Repeat("very long ", 21000) + `"}`,
	} {
		for _, model := range []string{"chat-openai", "chat-anthropic", "chat-quirky", "chat-loose"} {
			post(model+" messages "+m[:min(len(m), 150)], `{"model":"`+model+`","messages":[`+m+`]}`)
		}
	}
}

// moreChats are those whose heads differ, and those whose clients leave; drains:
// what they left is read on, as billing.on_client_gone says.
func (l *lab) moreChats(c *customer, drains bool) {
	for _, h := range []string{"Accept: text/event-stream", "Accept: application/xml", "Accept-Encoding: gzip",
		"Accept-Encoding: br", "Accept-Encoding: gzip, br", "X-Stainless-Lang: js", "User-Agent: OpenAI/Python 1.2.3",
		"Content-Type: text/plain", "Content-Type: application/json; charset=utf-8",
		"Content-Type: multipart/form-data; boundary=x",
		"Content-Encoding: gzip", "Content-Encoding: identity", "Origin: https://app.example.com",
		"Origin: https://other.example.com", "X-Request-Id: mine", "Expect: 100-continue", "Connection: close",
		"X-Forwarded-For: 192.0.2.1", "OpenAI-Organization: o",
		"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		for _, more := range []string{"", `,"stream":true`} {
			l.do(step{name: "head " + h + more, path: "/chat/completions", key: c.worker, headers: []string{h},
				body: chatBody("chat-openai", "[[sim tokens=30]] hello", more)})
		}
		l.do(step{name: "refused with head " + h, path: "/chat/completions", key: c.worker, headers: []string{h},
			body: chatBody("nobody", "hello", "")})
		l.do(step{name: "large with head " + h, path: "/chat/completions", key: c.worker, headers: []string{h},
			body: chatBody("chat-openai", "[[sim big=90000]] hello", "")})
	}
	// Who leaves a model that is held in full is answered to the end, in his
	// absence; of one that is held in slices the upstream is cut off, after as
	// many tokens as it holds back behind.
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
	l.do(step{name: "balance after those who left", method: "GET", path: "/billing/balance", key: c.admin})
}

// compatChats are a few scenarios of each kind, with the switches turned.
func (l *lab) compatChats(c *customer) {
	for i, s := range scenarios {
		for _, model := range []string{"chat-openai", "chat-anthropic"} {
			if i%2 == 0 || !strings.HasPrefix(s, "status=") {
				l.do(step{name: model + " " + s, path: "/chat/completions", key: c.worker,
					body: chatBody(model, "[[sim "+s+"]] Hello", "")})
			}
			if i%2 == 1 || !strings.HasPrefix(s, "status=") {
				l.do(step{name: model + " " + s + " streamed", path: "/chat/completions", key: c.worker,
					body: chatBody(model, "[[sim "+s+"]] Hello",
						`,"stream":true,"acme_parameters":{"strip_thinking_response":true}`)})
			}
		}
	}
}

// keyed are requests with an Idempotency-Key.
func (l *lab) keyed(c *customer) {
	post := func(name, path, id, body string) {
		l.do(step{name: "keyed " + name, path: path, key: c.worker, headers: []string{"Idempotency-Key: " + id},
			body: body})
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
		l.do(step{name: "embeddings " + body[:min(len(body), 150)], path: "/embeddings", key: c.worker, body: body})
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
	for _, b := range []string{`{"input":"a"}`, `{"model":"embed-1"}`, `{"model":"embed-2","input":"a","dimensions":4}`,
		`{"model":"embed-2","input":"a","encoding_format":"base64"}`,
		`{"model":"embed-2","input":"` + strings.Repeat("long ", 200) + `"}`, `{"model":"chat-openai","input":"a"}`,
		`{"model":"text-embedding-3-small","input":"a","dimensions":4}`,
		`{"model":"default","input":"a","dimensions":4}`, `{"model":"nobody","input":"a"}`,
		`{"model":"embed-1","input":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 2049), ",") + `]}`,
		`{"model":"embed-1","input":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 50), ",") + `],"dimensions":2}`, `{`,
		``, `{"model":"embed-1","model":"embed-2","input":"a"}`} {
		post(b)
	}
}
