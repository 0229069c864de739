package queue_test

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/queue"
)

// replies are answers as the upstreams give them, and as they should not.
var replies = []string{
	`{"status":"IN_QUEUE","request_id":"a-1","status_url":"http://h/fal/a/b/requests/a-1/status"}`,
	`{"status":"COMPLETED","request_id":"a-1"}`,
	`{"audio":{"url":"https://h/a.mp3","content_type":"audio/mpeg"}}`,
	`{"video":{"url":"data:video/mp4;base64,AAAA"}}`,
	`{"detail":[{"loc":["body"],"msg":"flagged by a content checker","type":"x"}]}`,
	`{"detail":{"status":"bad_prompt","message":"no","data":{"prompt_suggestion":"a song"}}}`,
	`{"id":"p1","status":"succeeded","output":["https://h/a.mp4"],"urls":{"get":"http://h/v1/predictions/p1"}}`,
	`{"id":"p1","status":"processing","logs":" 50%|###","output":null}`,
	`{"id":"p1","status":"failed","error":"NSFW content"}`,
	`{"model":"m","queue_id":"q1","status":"QUEUED","download_url":"https://h/d"}`,
	`{"status":"processing","progress_percent":25,"average_execution_time":1}`,
	`{"status":"COMPLETED","url":"https://h/x"}`,
	`{"error":{"code":"needs_consent","recommended_model":"m"},"suggested_prompt":"p"}`,
	`{"status":"COMPLETED","status":"IN_QUEUE"}`,
	`{"stat\u0075s":"COMPLETED","status":"IN_QUEUE"}`,
	strings.Repeat(`{"output":`, 50) + `"https://h/a"` + strings.Repeat("}", 50),
	`[]`, `null`, `"x"`, `{`, "{\"a\":1}x", "",
}

// Whatever an upstream answers, a job is only done with a result, only fails with a text,
// and an address is only followed below its target.
func FuzzAnswers(f *testing.F) {
	for i, text := range replies {
		f.Add(uint8(i), uint16(200), text)
		f.Add(uint8(i), uint16(422), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, status uint16, text string) {
		d := doors[int(which)%len(doors)]
		to := &queue.Target{Upstream: "u", Model: "a/b/c", Kind: config.MusicKind, Dialect: d.speaks, Base: "http://h/v1"}
		if which&0x40 != 0 {
			to.Kind = config.VideoKind
		}
		r := &queue.Reply{Status: int(status), ContentType: "application/json", Body: []byte(text),
			Header: func(string) []byte { return nil }}
		if taken, ok := d.speaks.Submitted(r, to); ok {
			checkTaken(t, taken, to)
		}
		if no, _ := d.speaks.Refused(r, to); no == nil || no.Status < 300 || no.Message == "" || no.Code == "" {
			t.Errorf("%+v", no)
		}
		h := &queue.Handle{ID: "id", Since: 1}
		for part := range 2 {
			r.Part = part
			s := new(queue.Step)
			at, err := d.speaks.Polled(s, r, h, to)
			checkStatus(t, at, err, s)
		}
		for part := range 4 {
			r.Part = part
			stop, err := d.speaks.Cancelled(new(queue.Step), r, h, to)
			if stop == queue.Free && (err != nil || status/100 != 2) {
				t.Error("free, and", err, status)
			}
		}
	})
}

func checkTaken(t *testing.T, taken *queue.Taken, to *queue.Target) {
	h := taken.Handle
	if !queue.Plain(h.ID) {
		t.Errorf("the id %q", h.ID)
	}
	for _, path := range []string{h.Status, h.Result, h.Cancel} {
		if path == "" {
			continue
		}
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, "/../") ||
			strings.ContainsAny(path, " \r\n\\#") || len(path) > 512 {
			t.Errorf("the path %q", path)
		}
		if again, ok := to.Own("http://h/v1" + path); !ok || again != path {
			t.Errorf("%q is not below the target", path)
		}
	}
}

func checkStatus(t *testing.T, at *asyncjob.Status, err error, s *queue.Step) {
	switch {
	case err != nil:
		if at != nil {
			t.Error("it is known and not known")
		}
	case at == nil:
		if len(s.Request.Path) == 0 {
			t.Error("there is neither a standing nor a further question")
		}
	case at.Failed != nil:
		if at.Done || at.Failed.Message == "" || at.Body != nil || at.Result != nil {
			t.Errorf("it failed and is done: %+v", at)
		}
	case at.Done:
		var r queue.Result
		if at.Body == nil && json.Unmarshal(at.Result, &r) != nil || len(at.Result) > 4<<10 {
			t.Errorf("it is done without a result: %+v", at)
		}
	default:
		if at.Progress < -1 || at.Progress > 100 || at.Body != nil {
			t.Errorf("%+v", at)
		}
	}
}

// Names of addresses and outputs are whatever an upstream likes.
func FuzzOwn(f *testing.F) {
	f.Add("http://h/v1/a/b", "http://h/v1")
	f.Add("http://h/v1/../a", "http://h/v1")
	f.Add("http://h/v1/%2e%2e/a", "http://h/v1")
	f.Add("https://h/v1/a", "http://h/v1")
	f.Add("http://u@h/v1/a?x=1#y", "http://h/v1/")
	f.Fuzz(func(t *testing.T, address, base string) {
		to := &queue.Target{Base: base}
		path, ok := to.Own(address)
		if ok && (!strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \r\n\\") || strings.HasPrefix(path, "//")) {
			t.Errorf("%q below %q is %q", address, base, path)
		}
	})
}

// Orders of any kind are put into words that are JSON.
func FuzzInput(f *testing.F) {
	f.Add(`{"kind":"music","prompt":"a","seconds":4,"speed":1.5}`, "duration:ms", `{"a":1}`)
	f.Add(`{"kind":"video","duration":"1 gen","images":["x"],"keyframes":[{"image":"a","index":2}]}`, "a.b.c:unit", "{}")
	f.Fuzz(func(t *testing.T, text, name, extra string) {
		var o queue.Order
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		to := &queue.Target{Kind: config.JobKindOf(o.Kind), Options: map[string]string{"seconds": name, "duration": name, "image": name,
			"extra": extra}}
		if queue.CommonNames.Reach(&o, to) != nil {
			return
		}
		if _, err := json.Marshal(queue.CommonNames.Input(&o, to)); err != nil {
			t.Error(err)
		}
	})
}
