package responses

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// FuzzRequest has every body that the scan lets pass become a chat body that the scan of
// those lets pass, or be refused by name.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		request,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":{"url":"x"},"detail":null},"x",{"type":"input_file"}]},
			{"type":"reasoning","summary":["a",{"text":"b"},3],"encrypted_content":"rd1_W3sidHlwZSI6InJlYXNvbmluZy50ZXh0In1d"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"id":"x"},null,
			{"type":"function_call_output","call_id":"c","output":[{"type":"text","text":"a"},[]]}]}`,
		`{"model":"m","input":"x","tools":[{"type":"web_search_2"},{"type":"function","function":{}},{"type":"custom","name":"x"},3],
			"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"x"},4,{}]},"x":[{}],"service_tier":null,
			"other_parameters":{"enable_web_search":null},"web_search":true,"include":["a",1],"text":{"format":{"type":"json_schema"}}}`,
		`{"input":3,"model":[],"tools":{},"text":[],"reasoning":"x","include":"x","metadata":3,"svc_parameters":3}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		doc := &scan.Document{}
		if doc.SkimStrict(body, ownShape) != nil {
			return
		}
		for _, o := range []*Options{sdk, spec, plain} {
			form := NewForm(o, body, doc, []byte(testID), 1)
			form.Check()
			made := form.Request()
			var again scan.Document
			if err := again.SkimStrict(made, chatBook); err != nil && len(form.Problems()) == 0 {
				if e := err.(*scan.Error); e.Reason != scan.TooDeep {
					t.Fatalf("%s\nbecame\n%s\n%v", body, made, err)
				}
			}
			if len(form.Problems()) == 0 && !json.Valid(made) && json.Valid(body) {
				t.Fatalf("%s\nbecame\n%s", body, made)
			}
			if len(form.Problems()) == 0 && doc.TopIndex(TopModel) >= 0 && json.Valid(body) {
				sentAsRead(t, body, doc)
			}
			for _, path := range []string{"messages.0.content.1.image_url.url", "messages.1.tool_calls.0.function", "tools.0.function"} {
				form.Path(path)
			}
			if echo := form.appendTail(nil, &outcome{}); json.Valid(body) && !json.Valid([]byte(`{"output":[`+string(echo))) {
				t.Fatalf("%s\nis repeated as\n%s", body, echo)
			}
			form.Release()
		}
	})
}

// sentAsRead fails unless the body for an upstream of the form itself is read by the scan,
// without unknown members, and has the client's own tools only.
func sentAsRead(t *testing.T, body []byte, doc *scan.Document) {
	t.Helper()
	c := &dialect.Chat{Told: body, ToldDoc: doc, MaxCompletion: 9, Model: &dialect.Model{ID: "m"}}
	var r proxy.Request
	var s dialect.Scratch
	if (Native{}).Request(&r, c, targetOf(c, "there"), &s) != nil {
		return
	}
	sent := proxy.AppendPatched(nil, body, r.Patches)
	var again scan.Document
	if err := again.SkimStrict(sent, ownShape); err != nil || !json.Valid(sent) {
		t.Fatalf("%s\nis sent as\n%s\n%v", body, sent, err)
	}
	if int(again.Named(-1)) != again.Members {
		t.Fatalf("%s\nis sent with unknown members:\n%s", body, sent)
	}
	tools := again.TopIndex(TopTools)
	if tools < 0 || again.Fields[tools].Kind != scan.Array {
		return // that was refused by the rules
	}
	for i := tools + 1; i < again.Fields[tools].Next; i = again.Fields[i].Next {
		if kind := string(again.StringAt(sent, again.Member(i, ToolType))); kind != "function" && kind != "custom" {
			t.Fatalf("%s\nis sent with a tool %q:\n%s", body, kind, sent)
		}
	}
}

// FuzzStream gives a form whatever an upstream may send, in pieces and at once.
func FuzzStream(f *testing.F) {
	for _, chunks := range []string{
		delta(`"content":"a"`) + delta(`"content":"b"`) + finish("stop") + usageChunk + done,
		delta(`"reasoning":"a","reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":null},{}]`) + delta(`"refusal":"b"`) +
			delta(`"annotations":[{"type":"url_citation","url_citation":{}},{},3]`) + finish("length"),
		delta(`"tool_calls":[{"index":-1,"id":7,"function":{"name":"f"}},{"custom":{}},{},[],{"function":{"arguments":"x"}}]`) + done,
		`data: {"error":"x"}` + "\n\n", `data: {"choices":[[],{"delta":[]},{"index":1,"delta":{"content":"x"}},{"delta":{"content":[{},[],3]}}]}` + "\n\n",
		"data: {\"svc_parameters\":{\"web_search_citations\":[3,{\"url\":1}]},\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n",
	} {
		f.Add([]byte(chunks), uint16(7))
		f.Add([]byte(chunks), uint16(0))
	}
	f.Fuzz(func(t *testing.T, chunks []byte, piece uint16) {
		for _, o := range []*Options{sdk, spec} {
			whole := events(t, o, request, string(chunks))
			var cuts []int
			step := int(piece)%97 + 1
			for at := step; at < len(chunks); at += step {
				cuts = append(cuts, at)
				step = step*31%97 + 1
			}
			if got := events(t, o, request, string(chunks), cuts...); timeless(got) != timeless(whole) {
				t.Fatalf("%q\nin pieces %v:\n%s\nat once:\n%s", chunks, cuts, got, whole)
			}
			if n := strings.Count(whole, "event: response.created\n"); n != 1 {
				t.Fatalf("%q: created %d times", chunks, n)
			}
			ends := 0
			for _, end := range []string{"completed", "incomplete", "failed"} {
				ends += strings.Count(whole, "event: response."+end+"\n")
			}
			if ends != 1 {
				t.Fatalf("%q: %d ends", chunks, ends)
			}
			form := formOf(t, o, request)
			message := bytes.TrimPrefix(chunks, []byte("data: "))
			_, _ = wholeAnswer(form, string(message), chatOf(t, form))
			form.Release()
		}
	})
}
