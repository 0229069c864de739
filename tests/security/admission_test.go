package security

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/billing/store"
	"farebox/tests/rig"
)

// Admission comes first (design.md, P10): whatever an account without money asks, or one
// whose rate is used up, nothing is written, kept, parsed or sent for it.

// everything sells one thing of each kind.
const everything = `
log: { level: debug, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { key: { rpd: 1 }, failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
fetch: { allow: [127.0.0.1] }
media: { dir: %[3]q }
characters: {}
augment:
  text_parser: {}
  scrape: {}
  search: { brave: [{ name: b, format: brave, base_url: %[2]q, key: k }] }
upstreams:
  - { name: only, base_url: %[1]q, key: k }
  - { name: native, dialect: native, base_url: %[1]q, key: k }
  - { name: fal, dialect: fal, base_url: %[1]q, key: k }
  - { name: labs, dialect: elevenlabs, base_url: %[1]q, key: k }
models:
  - { id: chat, tier: unlimited, context_tokens: 128000, price: { input: 1, output: 2 }, targets: [{ upstream: only, model: sim-chat }] }
  - { id: embedding, type: embedding, tier: unlimited, max_input_tokens: 8192, price: { input: 1 }, targets: [{ upstream: only }] }
  - { id: paint, type: image, tier: unlimited, traits: [default], price: { generation: 0.01 }, targets: [{ upstream: native }] }
  - { id: edit, type: inpaint, tier: unlimited, traits: [default], constraints: { max_input_images: 3 }, price: { inpaint: 0.01 }, targets: [{ upstream: native }] }
  - { id: enlarge, type: upscale, tier: unlimited, price: { generation: 0.01, upscale: { 2x: 0.01, 4x: 0.02 } }, targets: [{ upstream: native }] }
  - { id: cut, type: background_removal, tier: unlimited, price: { generation: 0.01 }, targets: [{ upstream: native }] }
  - { id: voice, type: tts, tier: unlimited, voices: [Aurora], voice_cloning: { accepted_formats: [wav], price: 0.5 }, price: { input: 100 }, targets: [{ upstream: labs }] }
  - { id: ears, type: asr, tier: unlimited, traits: [default], max_seconds: 60, video_links: true, capabilities: { timestamps: [segment] }, price: { per_audio_second: 0.0001 }, targets: [{ upstream: only, model: whisper-large }] }
  - { id: tune, type: music, tier: unlimited, constraints: { min_duration: 1, max_duration: 60 }, price: { per_second: 0.01 }, targets: [{ upstream: native }] }
  - id: film
    type: video
    tier: unlimited
    constraints: { model_type: video }
    inputs: { upscale_factors: [2], video_min_seconds: 1, video_max_seconds: 30 }
    price: { upscale: [{ second: 0.05 }] }
    targets: [{ upstream: native, model: sim-video-upscale }]
rpc:
  networks: [{ name: ethereum-mainnet, head_every: 0s, upstreams: [{ name: node, url: %[1]q }] }]
%[4]s
`

// ask is a request to a row that would be admitted with money.
type ask struct {
	path, kind, body string // path: where the row's has a parameter
	// free says that nothing is sold: the request is answered whatever the account has.
	free bool
	// writes are the tables in which a free request leaves its data.
	writes []string
}

// asks are the requests to each row of the table. A new row needs a place here.
func asks(t *testing.T, site string) map[string]ask {
	t.Helper()
	sold := func(body string) ask { return ask{kind: "application/json", body: body} }
	free := func(body string, writes ...string) ask {
		return ask{kind: "application/json", body: body, free: true, writes: writes}
	}
	get := func(path ...string) ask { return ask{path: strings.Join(path, ""), free: true} }
	form := func(fields map[string]string, name string, file []byte) ask {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if err := w.WriteField(field, fields[field]); err != nil {
				t.Fatal(err)
			}
		}
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(file); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return ask{kind: w.FormDataContentType(), body: b.String()}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 512, 512))); err != nil {
		t.Fatal(err)
	}
	picture := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
	sound := wave(20 * time.Second)
	chat := `"model":"chat","messages":[{"role":"user","content":"Hello"}]`
	rpc := sold(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x00"]}`)
	rpc.path = "/crypto/rpc/ethereum-mainnet"
	return map[string]ask{
		"POST /chat/completions":            sold(`{` + chat + `}`),
		"POST /messages":                    sold(`{` + chat + `,"max_tokens":100}`),
		"POST /messages/count_tokens":       free(`{` + chat + `}`),
		"POST /responses":                   sold(`{"model":"chat","input":"Hello"}`),
		"GET /responses/{id}":               get("/responses/resp_none"),
		"DELETE /responses/{id}":            get("/responses/resp_none"),
		"GET /responses/{id}/input_items":   get("/responses/resp_none/input_items"),
		"GET /openapi.json":                 get(),
		"POST /embeddings":                  sold(`{"model":"embedding","input":"Hello"}`),
		"POST /image/generate":              sold(`{"model":"paint","prompt":"a cat"}`),
		"POST /images/generations":          sold(`{"model":"paint","prompt":"a cat"}`),
		"POST /image/edit":                  sold(`{"model":"edit","prompt":"a hat","image":"` + site + `/picture.png"}`),
		"POST /images/edits":                sold(`{"model":"edit","prompt":"a hat","image":"data:image/png;base64,AAAA"}`), // not read
		"POST /image/multi-edit":            sold(`{"modelId":"edit","prompt":"a hat","images":["` + site + `/picture.png"]}`),
		"POST /image/upscale":               sold(`{"image":"` + picture + `","scale":2}`),
		"POST /images/upscale":              free(`{"image":"` + picture + `"}`), // not offered
		"POST /image/background-remove":     sold(`{"image_url":"` + site + `/picture.png"}`),
		"GET /image/styles":                 get(),
		"POST /audio/speech":                sold(`{"model":"voice","input":"Hello","voice":"Aurora"}`),
		"POST /audio/voices":                form(map[string]string{"model": "voice"}, "a.wav", sound),
		"POST /audio/transcriptions":        form(map[string]string{"model": "ears"}, "a.wav", sound),
		"POST /video/transcriptions":        sold(`{"url":"` + site + `/film.mp4"}`),
		"POST /audio/quote":                 free(`{"model":"tune","duration_seconds":6}`),
		"POST /audio/queue":                 sold(`{"model":"tune","prompt":"rain on a roof","duration_seconds":6}`),
		"POST /audio/retrieve":              free(`{"model":"tune","queue_id":"none"}`),
		"POST /audio/complete":              free(`{"model":"tune","queue_id":"none"}`),
		"POST /video/quote":                 free(`{"model":"film","duration":"5s"}`),
		"POST /video/queue":                 sold(`{"model":"film","video_url":"` + site + `/film.mp4"}`),
		"POST /video/retrieve":              free(`{"model":"film","queue_id":"none"}`),
		"POST /video/complete":              free(`{"model":"film","queue_id":"none"}`),
		"POST /augment/scrape":              sold(`{"url":"` + site + `/page"}`),
		"POST /augment/search":              sold(`{"query":"heron"}`),
		"POST /augment/text-parser":         form(nil, "a.pdf", []byte("%PDF-1.4\n")),
		"POST /crypto/rpc/{network}":        rpc,
		"GET /crypto/rpc/networks":          get(),
		"GET /models":                       get(),
		"GET /models/traits":                get(),
		"GET /models/compatibility_mapping": get(),
		"GET /models/{id:*}":                get("/models/chat"),
		"GET /characters":                   get(),
		"GET /characters/{slug}":            get("/characters/none"),
		"GET /characters/{slug}/reviews":    get("/characters/none/reviews"),
		"GET /characters/{slug}/photo":      get("/characters/none/photo"),
		"GET /api_keys":                     get(),
		"POST /api_keys":                    free(`{"apiKeyType":"INFERENCE","description":"x"}`, "api_key", "counter", "change"),
		"PATCH /api_keys":                   free(`{"id":"none"}`),
		"DELETE /api_keys":                  ask{path: "/api_keys?id=none", free: true},
		"GET /api_keys/{id}":                get("/api_keys/none"),
		"GET /api_keys/generate_web3_key":   get(),
		"POST /api_keys/generate_web3_key":  free(`{"address":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","signature":"0x00","token":"t","apiKeyType":"INFERENCE"}`),
		"GET /api_keys/rate_limits":         get(),
		"GET /api_keys/rate_limits/log":     get(),
		"GET /billing/balance":              get(),
		"GET /billing/usage":                get(),
		"GET /billing/statement":            get(),
		"GET /billing/refusals":             get(),
		"GET /billing/usage-history":        get(),
		"GET /billing/usage-analytics":      get(),
		"GET /media/{id}":                   get("/media/none"),
		"HEAD /media/{id}":                  get("/media/none"),
		"DELETE /media/{id}":                get("/media/none"),
		"GET /jobs":                         get(),
		"POST /jobs/hook/{token}":           ask{path: "/jobs/hook/none", kind: "application/json", body: `{}`, free: true},
		"GET /tee/attestation":              get("/tee/attestation?model=chat"),
		"GET /tee/signature":                get("/tee/signature?model=chat&request_id=none"),
		"POST /x402/top-up":                 free(``),
		"GET /x402/balance/{wallet}":        get("/x402/balance/0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
		"GET /x402/transactions/{wallet}":   get("/x402/transactions/0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
		"POST /x402/link":                   free(`{}`),
	}
}

// wave is a WAV file of silence.
func wave(long time.Duration) []byte {
	const rate = 8000
	n := uint32(long.Seconds() * rate)
	b := append([]byte("RIFF"), le32(36+n)...)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = append(append(b, le32(rate)...), le32(rate)...)
	b = append(append(b, "\x01\x00\x08\x00data"...), le32(n)...)
	return append(b, bytes.Repeat([]byte{0x80}, int(n))...)
}

func le32(n uint32) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }

// "An account without money filled the store, and had you fetch and read for it."
func TestARefusedRequestLeavesNothing(t *testing.T) {
	t.Parallel()
	refusedEverywhere(t, "", nil)
}

func TestARefusedRequestLeavesNothingOnRedis(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	refusedEverywhere(t, "redis: { addresses: [\""+r.Addr+"\"], timeout: 5s }\n", r)
}

func refusedEverywhere(t *testing.T, more string, r *servers.Redis) {
	sim := rig.StartUpstream(t, upstream.Options{})
	var visits atomic.Int64 // to the targets of links, and searches
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		_, _ = io.WriteString(w, "<p>a page")
	}))
	defer site.Close()
	g := rig.StartGateway(t, fmt.Sprintf(everything, sim.URL, site.URL, filepath.Join(t.TempDir(), "media"), more))
	rows, cases := table(t, g), asks(t, site.URL)
	for row := range cases {
		if !slices.Contains(rows, row) {
			t.Errorf("there is no row %s", row)
		}
	}

	g.NewAccount("empty", "")
	g.NewAccount("fast", "100")
	keys := map[string]string{"empty": g.Key("empty", "--type", "ADMIN"), "fast": g.Key("fast", "--type", "ADMIN")}
	g.Must(200, "POST", "/chat/completions", keys["fast"], cases["POST /chat/completions"].body, nil)
	rig.Await(t, "the charge and its detail are in the store", func() bool {
		return count(t, g, "usage_day") > 0 && count(t, g, "usage_page") > 0
	})

	before := look(t, g, sim, &visits, r)
	sold := 0
	for _, row := range rows {
		a, known := cases[row]
		if !known {
			t.Errorf("nothing is asked of the row %s", row)
			continue
		}
		if !a.free {
			sold++
		}
		method, path, _ := strings.Cut(row, " ")
		if a.path != "" {
			path = a.path
		}
		for account, want := range map[string]int{"empty": 402, "fast": 429} {
			for _, keyed := range []string{"", "key-" + fmt.Sprint(sold)} {
				status, answer := send(t, g, method, path, keys[account], keyed, &a)
				if a.free && status == 500 || !a.free && status != want {
					t.Errorf("%s of the account %s is answered %d %.300s, expected %d", row, account, status, answer, want)
				}
			}
		}
		after := look(t, g, sim, &visits, r)
		for _, name := range a.writes {
			before.tables[name] = after.tables[name]
		}
		if text := fmt.Sprint(after); text != fmt.Sprint(before) {
			t.Errorf("%s left something: %s, before %v", row, text, before)
			before = after
		}
	}
	if sold < 20 {
		t.Errorf("only %d rows sell something", sold)
	}
	t.Logf("%d rows, %d of them sell something", len(rows), sold)
	g.CLI("verify")
}

// table are the rows of the running gateway.
func table(t *testing.T, g *rig.Gateway) (rows []string) {
	t.Helper()
	for line := range strings.Lines(g.Log()) {
		var said struct{ Endpoints []string }
		if json.Unmarshal([]byte(line), &said) == nil && len(said.Endpoints) > 0 {
			return said.Endpoints
		}
	}
	t.Fatal("the gateway does not say which endpoints it has")
	return nil
}

func send(t *testing.T, g *rig.Gateway, method, path, key, idempotency string, a *ask) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(method, g.URL+path, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if a.kind != "" {
		req.Header.Set("Content-Type", a.kind)
	}
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// traces are the possible effects of requests.
type traces struct {
	kept     int64    // bytes of the folder of idempotency keys
	redis    []string // but the limits' own counters
	upstream int64    // requests to upstreams
	visits   int64    // to the targets of links
	children float64  // jobs of the children that read documents
	accounts string
	tables   map[string]int // rows, but of refusals
}

func look(t *testing.T, g *rig.Gateway, sim *rig.Simulated, visits *atomic.Int64, r *servers.Redis) (s traces) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(g.Store, "idempotency", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		s.kept += info.Size()
	}
	if r != nil {
		client := r.Client()
		defer func() { _ = client.Close() }()
		names, err := client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		s.redis = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, ":limits:") })
	}
	s.upstream, s.visits = sim.Stats().Requests, visits.Load()
	s.children, _ = g.Metric("farebox_jail_jobs")
	s.tables = map[string]int{}
	db := open(t, g)
	defer func() { _ = db.Close() }()
	for _, name := range tables(t, db) {
		if name != "violation" && name != "request" {
			s.tables[name] = rowsOf(t, db, name)
		}
	}
	var sums string
	if err := db.QueryRow("SELECT group_concat(account || ' ' || currency || ' ' || avail || ' ' || escrow || ' ' || spent) FROM " +
		"(SELECT * FROM bucket ORDER BY account, currency)").Scan(&sums); err != nil {
		t.Fatal(err)
	}
	s.accounts = sums
	if n := rowsOf(t, db, "violation"); n > 2*50 {
		t.Errorf("%d refusals are recorded of two accounts", n)
	}
	if n, _ := g.Metric("farebox_holds_open"); n != 0 {
		t.Errorf("%v holds are open", n)
	}
	return s
}

func open(t *testing.T, g *rig.Gateway) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.Store, store.DatabaseFile)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func count(t *testing.T, g *rig.Gateway, name string) int {
	db := open(t, g)
	defer func() { _ = db.Close() }()
	return rowsOf(t, db, name)
}

func tables(t *testing.T, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func rowsOf(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRow(`SELECT count(*) FROM "` + table + `"`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
