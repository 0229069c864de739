package jobs_test

import (
	"strings"
	"testing"

	"farebox/routes/jobs"
	"farebox/routes/routestest"
)

// The rules of bodies about music hold at their edges.
func TestMusicRulesAtTheirEdges(t *testing.T) {
	t.Parallel()
	routestest.Edges(t, "", nil, jobs.New(nil))
}

const sellsMusic = `
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, dialect: native, base_url: "http://ADDR/v1" }
  - { name: writer, base_url: "http://ADDR/v1" }
models:
  - id: song
    aliases: [tune]
    type: music
    constraints: { min_prompt_characters: 1 }
    price: { generation: 0.18 }
    targets: [{ upstream: only }]
  - id: away
    type: music
    offline: true
    price: free
    targets: [{ upstream: only }]
  - id: chat
    context_tokens: 1000
    price: free
    targets: [{ upstream: writer }]
`

// The errors of a request are reported before any upstream is asked.
func TestWrongRequestsForMusic(t *testing.T) {
	t.Parallel()
	rig := routestest.Start(t, sellsMusic, "127.0.0.1:9", jobs.New(nil))
	f := func(path, body string, status int, said string) {
		t.Helper()
		if got, answer := rig.Post(path, body, ""); got != status || !strings.Contains(answer, said) {
			t.Errorf("%s %s: %d %s, want %d with %s", path, body, got, answer, status, said)
		}
	}
	const id = "0197c3b2-8d4e-7a61-9c55-3f2b1a0d9e87"
	f("/audio/quote", `{"model":"song"}`, 200, `{"quote":0.18,`)
	f("/audio/quote", `{"model":"tune"}`, 200, `{"quote":0.18,`)
	f("/audio/quote", `{"model":"nobody"}`, 404, "MODEL_NOT_FOUND")
	f("/audio/quote", `{"model":"chat"}`, 400, "INVALID_MODEL")
	f("/audio/quote", `{"model":"away"}`, 503, "MODEL_OFFLINE")
	f("/audio/quote", `{"model":"song","model":"song"}`, 400, "model")
	f("/audio/quote", `{"model":"song","Model":"song"}`, 400, "model")
	f("/audio/quote", `{"model":"song","prompt":"x"}`, 400, "unrecognized_keys")
	f("/audio/quote", `{}`, 400, "model: is required")
	f("/audio/queue", `{"model":"song"}`, 400, "prompt: is required")
	f("/audio/queue", `{"model":"song","prompt":"x","loop":true}`, 400, "does not support loops")
	for _, path := range []string{"/audio/retrieve", "/audio/complete"} {
		f(path, `{"model":"song"}`, 400, "queue_id: is required")
		f(path, `{"queue_id":"`+id+`"}`, 400, "model: is required")
		f(path, `{"model":"song","queue_id":7}`, 400, "queue_id")
		f(path, `{"model":"song","queue_id":"7"}`, 400, "REQUEST_ID_NOT_FOUND")
		f(path, `{"model":"song","queue_id":"`+id+`x"}`, 400, "REQUEST_ID_NOT_FOUND")
		f(path, `{"model":"song","queue_id":"`+id+`"}`, 404, "MEDIA_NOT_FOUND")
		f(path, `{"model":"song","queue_id":"`+strings.ToUpper(id)+`"}`, 404, "MEDIA_NOT_FOUND")
		f(path, `{"model":"gone","queue_id":"`+id+`"}`, 404, "MEDIA_NOT_FOUND")
		f(path, `{"model":"song","queue_id":"`+id+`","prompt":"x"}`, 400, "unrecognized_keys")
	}
	f("/audio/complete", `{"model":"song","queue_id":"`+id+`","delete_media_on_completion":true}`, 400, "unrecognized_keys")
}
