package gemini

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The fast path of usual events gives the same as the scan: an unknown member at the
// front of each event makes it take the scan.
func TestUsualEventsAreReadAsAllOthers(t *testing.T) {
	texts := []string{``, `a`, ` \"b\\`, `ü😀`, `{"text": `, `}],\"role\": `, `<think>`}
	usages := []string{`{"promptTokenCount": 4,"candidatesTokenCount": 3,"totalTokenCount": 7}`, `{"promptTokenCount": 9,"x": [{"a": "}"}]}`,
		`{}`, `{"promptTokenCount": 0}`, `null`, `7`, `{"promptTokenCount": 5},"promptFeedback": {"blockReason": "SAFETY"}`,
		`{"promptTokenCount": 5},"error": {"code": 503,"status": "UNAVAILABLE"}`, `{"promptTokenCount": 5},"candidates": []`}
	parts := []string{`{"text": "%"}`, `{"text": "%"}`, `{"text": "%"}`, `{"text": "%","thought": true}`, `{"text": "%"},{"text": "more"}`,
		`{"text": "%","thoughtSignature": "c2ln"}`, `{"text":"%"}`}
	around := []string{`],"role": "model"},"index": 0}]`, `],"role": "model"}}]`, `]}}]`, `],"role": "model"},"index": 0,"finishReason": "STOP"}]`,
		`],"role": "model"},"index": 1}]`}
	tails := []string{`,"modelVersion": "m","responseId": "r1"}`, `,"responseId": "r1"}`, `}`, `,"modelVersion": "m","responseId": "r1","y": {}}`}
	rapid.Check(t, func(r *rapid.T) {
		pick := func(list []string, name string) string {
			// Mostly the first, so that events are alike.
			if rapid.IntRange(0, 3).Draw(r, name+"?") > 0 {
				return list[0]
			}
			return rapid.SampledFrom(list).Draw(r, name)
		}
		short, long := text("begin"), text("begin")
		for range rapid.IntRange(1, 12).Draw(r, "events") {
			e := `"candidates": [{"content": {"parts": [` + strings.ReplaceAll(pick(parts, "part"), "%",
				rapid.SampledFrom(texts).Draw(r, "text")) + pick(around, "around")
			if rapid.IntRange(0, 5).Draw(r, "told") > 0 {
				e += `,"usageMetadata": ` + pick(usages, "usage")
			}
			e += pick(tails, "tail")
			short += event("{" + e)
			long += event(`{"x": 0,` + e)
		}
		short, long = short+last("STOP", ""), long+last("STOP", "")
		if got, want := translate(t, short, true, nil), translate(t, long, true, nil); got != want {
			r.Fatalf("%s\n got %+v\nwant %+v", short, got, want)
		}
	})
}
