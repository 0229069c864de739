package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// The process reports its state, without a secret.
func TestTheProcessReportsItsState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if h := d.must("GET", "/health", "").Get("data.0"); !h.Get("ready").Bool() || h.Get("reasons.#").Int() != 0 || !h.Get("store.up").Bool() ||
		h.Get("redis.configured").Bool() || h.Get("version").Str == "" {
		t.Errorf("health: %s", h)
	}
	if u := d.must("GET", "/upstreams", ""); u.Get("data.#").Int() == 0 || u.Get("data.0.state").Str != "closed" || u.Get("data.0.upstream").Str == "" ||
		u.Get("data.0.credential.kind").Str != "key" || u.Get("data.0.credential.got_at").Str == "" {
		t.Errorf("upstreams: %s", u)
	}
	d.NewAccount("a", "1")
	key := d.Key("a")
	for _, more := range []string{"", "", `,"stream":true`} {
		if status, _, answer := d.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=3]] Go", more)); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	answers := d.must("GET", "/upstreams", "").Get(`data.#(model=="sim-chat").answers`)
	if whole := answers.Get("#(streamed==false)"); whole.Get("status").Str != "2xx" || whole.Get("count").Int() != 2 ||
		whole.Get("first_byte_p95_ms").Float() <= 0 || whole.Get("whole_p50_ms").Float() <= 0 || answers.Get("#").Int() != 2 {
		t.Errorf("answers of the upstream: %s", answers)
	}
	if c := d.must("GET", "/config", ""); c.Get("file").Str != d.Config || !strings.Contains(c.Get("text").Str, "user_header: X-Forwarded-User") ||
		strings.Contains(c.Get("text").Str, secret) || strings.Contains(c.Get("text").Str, "upstream-key") {
		t.Errorf("config: %s", c)
	}
	if status, header, answer := d.as("boss", "GET", "/profiles/goroutine?debug=1", ""); status != 200 ||
		!strings.Contains(answer, "goroutine profile:") || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %.200s", status, answer)
	}
	if status, _, answer := d.as("boss", "GET", "/profiles/heap", ""); status != 200 || len(answer) < 100 {
		t.Errorf("%d %.200s", status, answer)
	}
	if status, _, _ := d.as("boss", "GET", "/profiles/cmdline", ""); status != 404 {
		t.Errorf("another profile is answered %d", status)
	}
}

// A candidate is checked without effect; a reload reports its result.
func TestAConfigIsCheckedAndReloaded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := os.ReadFile(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) string {
		body, _ := json.Marshal(map[string]string{"text": text})
		return d.must("POST", "/config/check", string(body)).Raw
	}
	if got := check(string(text)); !strings.Contains(got, `"good":true`) {
		t.Errorf("the running config: %s", got)
	}
	if got := check(strings.Replace(string(text), "max_credit: 20", "max_credit: twenty", 1)); !strings.Contains(got, `"good":false`) ||
		!strings.Contains(got, `"path":"operator.max_credit"`) {
		t.Errorf("a bad config: %s", got)
	}
	if got := check("brand: other\n" + string(text)); !strings.Contains(got, `"brand"`) {
		t.Errorf("a config for a restart: %s", got)
	}
	if _, _, answer := d.as("helper", "GET", "/self", ""); !strings.Contains(answer, `"role":"support"`) || !strings.Contains(answer, `"max_credit":"20"`) {
		t.Errorf("%s", answer)
	}
	next := strings.Replace(string(text), "helper: support", "helper: read-only", 1)
	if err := os.WriteFile(d.Config, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := d.must("POST", "/config/reload", ""); !strings.Contains(r.Get("data.0.message").Str, "is in effect") {
		t.Errorf("reload: %s", r)
	}
	if _, _, answer := d.as("helper", "GET", "/self", ""); !strings.Contains(answer, `"role":"read-only"`) {
		t.Errorf("after the reload: %s", answer)
	}
	if err := os.WriteFile(d.Config, []byte("models: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, answer := d.as("boss", "POST", "/config/reload", ""); status != 409 || !strings.Contains(answer, "the running config stays") {
		t.Errorf("a bad file: %d %s", status, answer)
	}
}

// The difference to another config has the prices first, and no secret.
func TestAConfigIsCompared(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := os.ReadFile(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.NewReplacer("price: { input: 1, output: 2 }", "price: { input: 1.5, output: 2 }", "max_credit: 20", "max_credit: 25",
		"proxy_secret: "+secret, "proxy_secret: something quite different").Replace(string(text)) + "brand: other\n"
	body, _ := json.Marshal(map[string]string{"text": next})
	got := d.must("POST", "/config/difference", string(body))
	if p := got.Get("prices.0"); p.Get("model").Str == "" || p.Get("kind").Str != "input" || p.Get("old").Str != "1" || p.Get("new").Str != "1.5" ||
		p.Get("percent").Float() != 50 {
		t.Errorf("prices: %s", got)
	}
	if got.Get("restart.0.key").Str != "brand" || got.Get(`other.#(key=="operator.max_credit").new`).Str != "25" ||
		got.Get(`other.#(key=="operator.proxy_secret").new`).Str != "********" || strings.Contains(got.Raw, "something quite different") ||
		strings.Contains(got.Raw, secret) {
		t.Errorf("the rest: %s", got)
	}
	if same := d.must("POST", "/config/difference", ""); !same.Get("good").Bool() || same.Get("prices.#").Int()+same.Get("other.#").Int() != 0 {
		t.Errorf("the file in effect: %s", same)
	}
	if wrong := d.must("POST", "/config/difference", `{"text":"models: 7"}`); wrong.Get("good").Bool() || wrong.Get("mistakes.#").Int() == 0 {
		t.Errorf("a config with mistakes: %s", wrong)
	}
}

// A backup that was read over HTTP is one that can be restored.
func TestABackupIsReadAndRestored(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	for i := range 3 {
		d.must("POST", "/accounts/a/credits", fmt.Sprintf(`{"currency":"USD","amount":"2.5","ref":"r%d","memo":"=cmd"}`, i))
	}
	status, header, body := d.as("boss", "GET", "/backup", "")
	if status != 200 || header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", status, header)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := rig.RunIn(t, dir, "restore", file, "--store", "again"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := rig.RunIn(t, dir, "account", "show", "a", "--store", "again"); err != nil || !strings.Contains(out, "7.5") {
		t.Errorf("%v: %s", err, out)
	}
	// A statement is a table, too, of all its parts.
	status, _, text := d.as("reader", "GET", "/accounts/a/statement?currency=USD&most=1&format=csv", "")
	if status != 200 || strings.Count(text, "\r\n") != 4 || strings.Count(text, ",'=cmd") != 3 || !strings.Contains(text, "7.5") {
		t.Errorf("%d\n%s", status, text)
	}
}

// A page to print has all parts of a statement. A memo cannot put markup into it.
func TestAListIsAPageToPrint(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	for i := range 3 {
		d.must("POST", "/accounts/a/credits", fmt.Sprintf(`{"currency":"USD","amount":"2.5","ref":"r%d","memo":"<script>alert(1)</script>&"}`, i))
	}
	status, header, page := d.as("reader", "GET", "/accounts/a/statement?currency=USD&most=1&format=html", "")
	if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" || header.Get("Content-Security-Policy") == "" {
		t.Fatalf("%d %v", status, header)
	}
	if strings.Contains(page, "<script") || strings.Count(page, "&lt;script&gt;") != 3 || strings.Count(page, "<tr>") != 4 ||
		!strings.Contains(page, "<div>account: a</div>") || !strings.Contains(page, "<div>opening: 0</div>") ||
		!strings.Contains(page, "<td class=n>7.5</td>") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("the page is\n%s", page)
	}
	if status, header, answer := d.as("reader", "GET", "/accounts/nobody/statement?currency=USD&format=html", ""); status != 404 ||
		!strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		t.Errorf("an account that does not exist: %d %v %s", status, header, answer)
	}
}
