package routes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/proxy/jsontext"
)

// Both generations of clients read an error: text plus top-level code. The nested and the
// flat list of issues name the same places.
func TestErrorShapes(t *testing.T) {
	e := Invalid(
		Issue{Code: "too_big", Path: "temperature", Message: "too hot", Maximum: "2"},
		Issue{Code: "invalid_type", Path: "messages.0.content", Message: "no <text>", Expected: "string",
			Received: "number"},
	)
	var body struct {
		Error   string
		Code    string
		Details struct {
			Errors      []string `json:"_errors"`
			Temperature struct {
				Errors []string `json:"_errors"`
			}
			Messages map[string]json.RawMessage
		}
		Issues []struct {
			Code, Message, Expected, Received string
			Path                              []any
			Maximum                           float64
		}
	}
	raw := AppendError(nil, e, ShapeString, nil)
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if body.Error == "" || body.Code != "INVALID_REQUEST" || len(body.Issues) != 2 || body.Issues[0].Maximum != 2 {
		t.Errorf("the body is %s", raw)
	}
	if len(body.Details.Temperature.Errors) != 1 || len(body.Details.Messages) != 2 {
		t.Errorf("the details are %s", raw)
	}
	if p := body.Issues[1].Path; len(p) != 3 || p[0] != "messages" || p[1] != 0.0 || p[2] != "content" {
		t.Errorf("the path is %v", p)
	}

	var nested struct {
		Error struct{ Message, Type, Param, Code string }
		Code  string
	}
	raw = AppendError(nil, e, ShapeObject, nil)
	if err := json.Unmarshal(raw, &nested); err != nil || nested.Error.Message == "" ||
		nested.Error.Param != "temperature" || nested.Error.Code != nested.Code {
		t.Errorf("%v in %s", err, raw)
	}
	overflow := &Error{Status: 400, Code: "context_length_exceeded", Message: "too long", Param: "messages"}
	raw = AppendError(nil, overflow, ShapeString, nil)
	if err := json.Unmarshal(raw, &nested); err != nil || nested.Error.Type != "invalid_request_error" ||
		nested.Error.Param != "messages" || nested.Error.Code != "context_length_exceeded" {
		t.Errorf("the context overflow is %s", raw)
	}
}

// The client's bytes are echoed as text, whatever they are.
func TestEchoedBytesCannotBreakTheBody(t *testing.T) {
	for _, s := range []string{"\x00\x1f\"\\", "\xff\xfe\xed\xa0\x80", "</script>", "\u2028",
		string([]byte{0xf0, 0x9f})} {
		raw := jsontext.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Errorf("%q became %s: %v", s, raw, err)
		}
	}
}

func TestShapeFollowsSettingAndClient(t *testing.T) {
	for _, c := range []struct {
		setting, agent string
		want           ErrorShape
	}{
		{"auto", "OpenAI/Go 3.95.0", ShapeObject}, {"auto", "OpenAI/JS 7.57.0", ShapeObject},
		{"auto", "AsyncOpenAI/Python 3.54.0", ShapeObject}, {"auto", "curl/8", ShapeString}, {"auto", "", ShapeString},
		{"auto", "ai/6.0.1 ai-sdk/provider-utils/4.0.0 runtime/node.js/20", ShapeObject},
		{"auto", "ai-sdk/openai/3.0.0", ShapeObject}, {"auto", "Agents/Python 0.9.0", ShapeObject}, {"auto", "codex_exec/0.169.0", ShapeObject},
		{"string", "OpenAI/Go 3.95.0", ShapeString}, {"openai", "curl", ShapeObject},
	} {
		var h fasthttp.RequestHeader
		h.SetUserAgent(c.agent)
		if got := shapeFor(c.setting, &h); got != c.want {
			t.Errorf("%s for %q: shape %d", c.setting, c.agent, got)
		}
	}
	var page fasthttp.RequestHeader
	page.SetUserAgent("Mozilla/5.0")
	page.Set("X-Stainless-Lang", "js")
	if got := shapeFor("auto", &page); got != ShapeObject {
		t.Errorf("OpenAI's package in a page: shape %d", got)
	}
}

func TestRetryAfterIsWholeSecondsAndAtLeastOne(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "30"}, {time.Millisecond, "1"}, {1500 * time.Millisecond, "2"}, {30 * time.Second, "30"}} {
		var ctx fasthttp.RequestCtx
		writeError(&ctx, &Error{Status: 429, Message: "x", RetryAfter: c.after}, ShapeString, nil)
		if got := string(ctx.Response.Header.Peek("Retry-After")); got != c.want {
			t.Errorf("%s gives %q", c.after, got)
		}
	}
}

func TestAcceptEncoding(t *testing.T) {
	for accept, want := range map[string]coding{
		"": identity, "gzip, deflate, br": gzipped, "br, gzip": gzipped, "GZIP": gzipped, "x-gzip": gzipped,
		"br":                 brotlied,
		"br;q=1.0, gzip;q=0": brotlied, "gzip; q=0.0": identity, "gzip;q=0.000": identity, "identity": identity,
		"xgzip":      identity,
		"gzip;q=0.5": gzipped, "gzip;q=0.5, br;q=0.501": brotlied, "gzip;Q=0.5 , br ; q = 1": brotlied,
		"deflate": identity,
		"*":       gzipped, "gzip;q=0, *": brotlied, "*;q=0": identity, "*;q=0, br": brotlied,
		"identity;q=0.5, *;q=0.1": identity,
		"identity, gzip;q=0.9":    identity, "identity;q=0.9, br": brotlied, "identity;q=0": identity,
		"gzip;q=x": identity, "gzip;q=": identity,
		"gzip;q=2": identity, "gzip;q=1.5": gzipped, "gzip;q=0.0005": identity, ",,;q=1,": identity,
		"gzip;level=9;q=0": identity,
	} {
		if got := chooseCoding([]byte(accept)); got != want {
			t.Errorf("%q: %q, want %q", accept, codingNames[got], codingNames[want])
		}
	}
}

// At high rates a bounded number of lines a second is written. The first line after the
// silence has the number of dropped lines.
func TestSamplerBoundsLines(t *testing.T) {
	var s sampler
	s.limit.Store(10)
	written := 0
	second := int64(time.Second)
	for range 1000 {
		if ok, _ := s.take(5 * second); ok {
			written++
		}
	}
	if written != 10 {
		t.Errorf("%d of 1000 lines in a second were written, limit 10", written)
	}
	if ok, skipped := s.take(6 * second); !ok || skipped != 990 {
		t.Errorf("the next second's first line: %v, %d skipped", ok, skipped)
	}
	s.limit.Store(0)
	for range 100 {
		if ok, _ := s.take(6 * second); !ok {
			t.Fatal("without a limit a line was dropped")
		}
	}
}
