package queue_test

import (
	"strings"
	"testing"
	"time"

	"farebox/config"
	"farebox/providers/queue"
	"farebox/proxy/jsontext"
)

// Addresses with which an upstream wants to be asked are its own, or they are not used.
func TestOnlyAddressesOfTheTargetAreItsOwn(t *testing.T) {
	t.Parallel()
	to := &queue.Target{Base: "https://queue.example.com/v1/"}
	f := func(address, want string) {
		t.Helper()
		if path, ok := to.Own(address); path != want && ok || ok != (want != "") {
			t.Errorf("%q is %q, %v; expected %q", address, path, ok, want)
		}
	}
	f("https://queue.example.com/v1/a/requests/1/status", "/a/requests/1/status")
	f("https://QUEUE.example.com/v1/a?x=1", "/a?x=1")
	f("http://queue.example.com/v1/a", "")
	f("https://queue.example.com:8443/v1/a", "")
	f("https://queue.example.com.evil.test/v1/a", "")
	f("https://queue.example.com@evil.test/v1/a", "")
	f("https://user:pw@queue.example.com/v1/a", "")
	f("//queue.example.com/v1/a", "")
	f("https:queue.example.com/v1/a", "")
	f("/v1/a", "")
	f("https://queue.example.com/v2/a", "")
	f("https://queue.example.com/v1x/a", "")
	f("https://queue.example.com/v1/../a", "")
	f("https://queue.example.com/v1/%2e%2e/a", "")
	f("https://queue.example.com/v1/a%2fb", "")
	f("https://queue.example.com/v1//a", "")
	f("https://queue.example.com/v1/a\r\nX: y", "")
	f("https://queue.example.com/v1/a b", "")
	f("https://queue.example.com/v1/ä", "/%C3%A4")
	f("https://queue.example.com/v1/"+strings.Repeat("a", 600), "")
	f("", "")
}

// An object is read in one way, or not at all.
func TestMembersAreReadInOneWay(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, text := range []string{"", " ", "null", "[]", `"a"`, "{", `{"a":1`, `{"a":1}x`, `{"a":1}{"a":1}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":1,}`, `{a:1}`, `{"a":` + deep + `}`, "\xff{}"} {
		if m := queue.Members([]byte(text)); len(m) != 0 {
			t.Errorf("%.40s has %v", text, m)
		}
	}
	m := queue.Members([]byte(` {"a" : "x\u0079" , "b":{"a":1,"a":2}, "c":-1.5} `))
	if jsontext.Unquoted(m["a"]) != "xy" || jsontext.Unquoted(m["b"]) != "" || jsontext.Unquoted(m["none"]) != "" || len(m) != 3 {
		t.Errorf("%q", m)
	}
	for text, want := range map[string]int{"0": 0, "99.9": 99, "100": 100, "101": -1, "-1": -1, `"5"`: -1, "": -1,
		"1e2": 100, "1e999": -1, "null": -1, "NaN": -1} {
		if got := queue.Percent([]byte(text)); got != want {
			t.Errorf("%s is %d percent", text, got)
		}
	}
}

// A result is found in its app's place, and nowhere else.
func TestResultsAreFoundInOutputs(t *testing.T) {
	t.Parallel()
	f := func(kind *config.JobKind, path, output, want string) {
		t.Helper()
		at := queue.Made([]byte(output), kind, path)
		if want == "" {
			if at.Failed == nil || at.Done || at.Result != nil || at.Body != nil {
				t.Errorf("%.60s is %+v", output, at)
			}
			return
		}
		if at.Failed != nil || !at.Done || !strings.Contains(string(at.Result), want) {
			t.Errorf("%.60s is %+v %s", output, at, at.Result)
		}
	}
	f(config.MusicKind, "", `"https://h/a.mp3"`, "https://h/a.mp3")
	f(config.MusicKind, "", `["https://h/a.mp3","https://h/b.mp3"]`, "https://h/a.mp3")
	f(config.MusicKind, "", `{"audio":{"url":"https://h/a.mp3","content_type":"audio/mpeg"}}`, "audio/mpeg")
	f(config.MusicKind, "", `{"audio_file":{"url":"https://h/a.wav"},"seed":1}`, "https://h/a.wav")
	f(config.MusicKind, "", `{"data":{"song":["https://h/a.mp3"]}}`, "https://h/a.mp3")
	f(config.VideoKind, "", `{"audio":"https://h/a.mp3","video":{"url":"https://h/v.mp4"}}`, "https://h/v.mp4")
	f(config.VideoKind, "", `{"videos":[{"url":"https://h/v.mp4"}]}`, "https://h/v.mp4")
	f(config.VideoKind, "files.1.href", `{"files":[{"href":"https://h/1"},{"href":"https://h/2"}]}`, "https://h/2")
	f(config.VideoKind, "files.2.href", `{"files":[{"href":"https://h/1"},{"href":"https://h/2"}]}`, "")
	f(config.VideoKind, "files.-1", `{"files":["https://h/1"]}`, "")
	for _, output := range []string{"", "null", "{}", "[]", "1", `"no link"`, `"file:///etc/passwd"`, `"https://"`,
		`"http:///x"`, `{"audio":null}`, `{"thumbnail":"https://h/t.png"}`, `{"audio":{"url":7}}`,
		`{"audio":"https://h/a","audio":"https://h/b"}`, `"https://h/` + strings.Repeat("a", 4000) + `"`,
		`"data:audio/mpeg;base64,!!"`, `"data:audio/mpeg,text"`, `"data:;base64,"`,
		strings.Repeat(`{"output":`, 9) + `"https://h/a"` + strings.Repeat("}", 9), `{"audio":"https://h/a"`} {
		f(config.MusicKind, "", output, "")
	}
	if at := queue.Made([]byte(`{"audio":"data:audio/mpeg;base64,SUQz"}`), config.MusicKind, ""); at.Body == nil ||
		string(read(t, at.Body)) != "ID3" || at.Type != "audio/mpeg" {
		t.Errorf("%+v", at)
	}
}

// Every answer of ill will leaves a job not known, or failed: never done.
func TestHostileAnswersNeverEndAJobWell(t *testing.T) {
	t.Parallel()
	for _, d := range doors[:3] {
		to := &queue.Target{Model: "a/b/c", Kind: config.MusicKind, Dialect: d.speaks, Base: "http://h/v1"}
		for _, text := range []string{"", "null", "[]", "{", `{"status":7}`, `{"status":null}`, `{"status":["COMPLETED"]}`,
			`{"status":"DONE"}`, `{"status":"succeeded","status":"succeeded"}`, `{"status":"COMPLETED`, `{}`,
			`{"status":"COMPLETED\u0000"}`, `{"status":"completed"}x`, `"COMPLETED"`, `{"Status":"COMPLETED"}`,
			`{"status":"succeeded","output":{"a":"https://h"}}`, `{"status":"COMPLETED","url":"javascript:1"}`,
			strings.Repeat(`{"status":`, 30_000)} {
			for _, status := range []int{100, 200, 201, 204, 206, 302, 400, 404, 500, 503, 999} {
				r := &queue.Reply{Part: 0, Status: status, Body: []byte(text), Header: func(string) []byte { return nil }}
				h := &queue.Handle{ID: "x", Since: time.Now().Unix()}
				s := new(queue.Step)
				at, err := d.speaks.Polled(s, r, h, to)
				if err == nil && at != nil && at.Done {
					t.Errorf("%s: %d %.60s: %+v", d.name, status, text, at)
				}
			}
		}
	}
}
