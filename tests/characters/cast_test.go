package characters

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Prices are whole nano-USD a token, so that a bill can be recounted without rounding.
const settings = `
log: { level: debug, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { public_catalog: true }
system_prompt: %q
characters: {}
upstreams:
  - { name: chats, base_url: %q, breaker: { failures: 0 } }
  - { name: claudes, dialect: anthropic, base_url: %q, breaker: { failures: 0 } }
  - { name: responders, base_url: %q, responses: true, drop: [], breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false, tools: true }
    price: &price { input: 1, output: 2 }
    targets: [{ upstream: chats }]
  - { id: sim-claude, tier: unlimited, context_tokens: 128000, max_completion_tokens: 1000, price: *price,
      targets: [{ upstream: claudes }] }
  - { id: native, tier: unlimited, context_tokens: 128000, max_completion_tokens: 1000, price: *price,
      capabilities: { reasoning: false }, targets: [{ upstream: responders }] }
`

// house is a gateway with characters, and its simulated upstreams.
type house struct {
	*rig.Gateway
	sim       *rig.Simulated
	responder *responder
	folder    string
	key       string // of account a, which has 10 USD
}

// open starts a gateway whose folder has these files before it does.
func open(t *testing.T, system string, files map[string]string) *house {
	t.Helper()
	h := &house{sim: rig.StartUpstream(t, upstream.Options{}), responder: startResponder(t)}
	h.Gateway = rig.NewGateway(t, fmt.Sprintf(settings, system, h.sim.URL, h.sim.URL, h.responder.url))
	h.folder = filepath.Join(h.Dir, "characters")
	if err := os.MkdirAll(h.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		h.put(name, text)
	}
	h.ListenAndStart()
	h.NewAccount("a", "10")
	h.key = h.Key("a")
	return h
}

// put writes a file of the folder at once.
func (h *house) put(name, text string) {
	h.T.Helper()
	part := filepath.Join(h.Dir, "part-of-"+name)
	if err := os.WriteFile(part, []byte(text), 0o644); err != nil {
		h.T.Fatal(err)
	}
	if err := os.Rename(part, filepath.Join(h.folder, name)); err != nil {
		h.T.Fatal(err)
	}
}

// said adds a review and gives its id.
func (h *house) said(slug string, rating int, more ...string) string {
	h.T.Helper()
	var r struct{ ID string }
	h.CLIJSON(&r, append([]string{"character", "review", "add", slug, "--rating", fmt.Sprint(rating)}, more...)...)
	return r.ID
}

// record is a character as clients see it.
type record struct {
	ID, Slug, Name, Author, ModelID string
	Description, PhotoURL, ShareURL *string
	Adult, Featured, WebEnabled     bool
	Tags                            []string
	Stats                           stats
	CreatedAt, UpdatedAt            time.Time
}

type stats struct {
	AverageRating                   float64
	Imports, RatingCount, RatingSum int
	UserRating                      *int
}

// one reads a character.
func (h *house) one(slug string) (r record) {
	h.T.Helper()
	var answer struct {
		Object string
		Data   record
	}
	h.Must(200, "GET", "/characters/"+slug, h.key, "", &answer)
	if answer.Object != "character" {
		h.T.Errorf("the object is %q", answer.Object)
	}
	return answer.Data
}

// slugs lists characters.
func (h *house) slugs(query string) string {
	h.T.Helper()
	var answer struct {
		Object string
		Data   []record
	}
	h.Must(200, "GET", "/characters"+query, h.key, "", &answer)
	var list []string
	for _, r := range answer.Data {
		list = append(list, r.Slug)
	}
	return strings.Join(list, " ")
}

// become waits until the list is this.
func (h *house) become(slugs string) {
	h.T.Helper()
	rig.Await(h.T, "the characters are "+slugs, func() bool {
		list := strings.Fields(h.slugs(""))
		slices.Sort(list)
		return strings.Join(list, " ") == slugs
	})
}

// character is the file of one; more is further lines.
func character(name, prompt, more string) string {
	quoted, _ := json.Marshal(prompt)
	return fmt.Sprintf("name: %s\nmodelId: sim-chat\nprompt: %s\n%s", name, quoted, more)
}
