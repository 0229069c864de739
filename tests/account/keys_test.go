package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// apiKey is the key object of addendum 16.1, with the numbers of the body.
type apiKey struct {
	ID, APIKeyType, Description, Last6Chars string
	CreatedAt, ExpiresAt, LastUsedAt        *string
	ConsumptionLimits                       struct{ USD, DIEM, VCU json.RawMessage }
	LimitPeriod, ModelPrivacy               string
	Usage                                   *struct {
		TrailingSevenDays struct{ USD, DIEM, VCU string }
	}
	CurrentPeriodUsage *struct{ USD, DIEM string }
}

func (k *apiKey) limits() string {
	return fmt.Sprintf("%s %s %s", k.ConsumptionLimits.USD, k.ConsumptionLimits.DIEM, k.ConsumptionLimits.VCU)
}

// made is the answer to a creation.
type made struct {
	Success bool
	Data    struct {
		ID, APIKey, APIKeyType, Description, LimitPeriod, ModelPrivacy string
		ExpiresAt                                                      *string
		ConsumptionLimit                                               struct{ USD, DIEM, VCU json.RawMessage }
	}
}

// A key's life over HTTP: made with its secret shown once, listed, read,
// changed in both spellings, deleted and gone.
func TestAPIKeyLife(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	admin := g.Key("a", "--type", "ADMIN")

	var m made
	g.Must(200, "POST", "/api_keys", admin,
		`{"apiKeyType":"INFERENCE","description":"für die Straße","consumptionLimit":{"usd":50,"diem":0.25,"vcu":null},"limitPeriod":"MONTH","modelPrivacy":"PRIVATE_TEXT","expiresAt":"2031-05-06T07:08:09.120Z"}`, &m)
	d := &m.Data
	if !m.Success || d.Description != "für die Straße" || d.APIKeyType != "INFERENCE" || d.LimitPeriod != "MONTH" ||
		d.ModelPrivacy != "PRIVATE_TEXT" || d.ExpiresAt == nil || *d.ExpiresAt != "2031-05-06T07:08:09.120Z" ||
		string(d.ConsumptionLimit.USD) != "50" || string(d.ConsumptionLimit.DIEM) != "0.25" ||
		string(d.ConsumptionLimit.VCU) != "2.5" {
		t.Errorf("created as %+v", m)
	}
	if !strings.HasPrefix(d.APIKey, "SVC_INFERENCE_KEY_") {
		t.Fatalf("the secret is %q", d.APIKey)
	}
	if status, _, answer := g.Post("/chat/completions", d.APIKey, rig.Ask("sim-chat", "Hello", "")); status != 200 {
		t.Errorf("a fresh key is answered %d %s", status, answer)
	}

	// The secret is in no other answer, and the log does not have it.
	var one struct{ Data apiKey }
	raw := string(g.Must(200, "GET", "/api_keys/"+d.ID, admin, "", &one))
	var list []apiKey
	raw += string(g.Must(200, "GET", "/api_keys", admin, "", &list))
	if strings.Contains(raw, d.APIKey) || strings.Contains(raw, `"apiKey"`) || strings.Contains(g.Log(), d.APIKey) {
		t.Errorf("the secret is shown again in %s", raw)
	}
	k := &one.Data
	if k.ID != d.ID || k.Last6Chars != d.APIKey[len(d.APIKey)-6:] || k.limits() != "50 0.25 2.5" ||
		k.LimitPeriod != "MONTH" || k.ModelPrivacy != "PRIVATE_TEXT" || k.LastUsedAt == nil || k.Usage == nil ||
		k.CurrentPeriodUsage == nil {
		t.Errorf("retrieved as %s", raw)
	}
	iso := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	for _, at := range []*string{k.CreatedAt, k.ExpiresAt, k.LastUsedAt} {
		if at == nil || !iso.MatchString(*at) {
			t.Errorf("a time is written as %v in %s", at, raw)
		}
	}
	if len(list) != 2 || list[1].ID != d.ID || list[0].CurrentPeriodUsage != nil ||
		list[0].limits() != "null null null" || list[0].ExpiresAt != nil {
		t.Errorf("listed as %+v", list)
	}

	// Both spellings; absent members keep their values, null removes the limit or expiry.
	var changed struct {
		Success bool
		Data    apiKey
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+d.ID+
		`","consumption_limit":{"usd":7},"limit_period":"LIFETIME","expires_at":"2032-01-02"}`, &changed)
	if c := &changed.Data; !changed.Success || c.limits() != "7 0.25 2.5" || c.LimitPeriod != "LIFETIME" ||
		*c.ExpiresAt != "2032-01-02T00:00:00.000Z" || c.Description != "für die Straße" ||
		c.ModelPrivacy != "PRIVATE_TEXT" || c.Usage != nil {
		t.Errorf("changed to %+v", changed)
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+d.ID+
		`","consumptionLimit":{"usd":null},"expiresAt":"","description":"new","modelPrivacy":"ALL"}`, &changed)
	if c := &changed.Data; c.limits() != "null 0.25 2.5" || c.ExpiresAt != nil || c.Description != "new" ||
		c.ModelPrivacy != "ALL" || c.LimitPeriod != "LIFETIME" {
		t.Errorf("changed to %+v", changed)
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+d.ID+`","consumptionLimit":null}`, &changed)
	if changed.Data.limits() != "null null null" {
		t.Errorf("no limit is %s", changed.Data.limits())
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+d.ID+`","consumption_limit":{"vcu":30}}`, &changed)
	if changed.Data.limits() != "null 3 30" {
		t.Errorf("30 VCU are %s", changed.Data.limits())
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+d.ID+
		`","consumption_limit":{"usd":9999999999,"diem":9999999999}}`, &changed)
	if changed.Data.limits() != "9999999999 9999999999 99999999990" {
		t.Errorf("limits above the integer range are echoed as %s", changed.Data.limits())
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	g.Must(200, "GET", "/api_keys/"+d.ID, admin, "", &one)
	if one.Data.limits() != "9999999999 9999999999 99999999990" || one.Data.Description != "new" ||
		one.Data.LastUsedAt == nil {
		t.Errorf("after a restart the key is %+v", one.Data)
	}

	g.Must(200, "DELETE", "/api_keys?id="+d.ID, admin, "", nil)
	if status, _, _ := g.Post("/chat/completions", d.APIKey, rig.Ask("sim-chat", "Hello", "")); status != 401 {
		t.Errorf("a deleted key is answered %d", status)
	}
	for _, gone := range []struct{ method, path, body string }{
		{"GET", "/api_keys/" + d.ID, ""}, {"DELETE", "/api_keys?id=" + d.ID, ""},
		{"PATCH", "/api_keys", `{"id":"` + d.ID + `","description":"x"}`},
	} {
		if answer := g.Must(404, gone.method, gone.path, admin, gone.body, nil); !strings.Contains(string(answer),
			`"NOT_FOUND"`) {
			t.Errorf("%s of a deleted key: %s", gone.method, answer)
		}
	}
	g.Must(200, "POST", "/api_keys", admin, `{}`, &m)
	if m.Data.APIKeyType != "INFERENCE" || m.Data.Description != "" || m.Data.LimitPeriod != "EPOCH" ||
		m.Data.ModelPrivacy != "ALL" || m.Data.ExpiresAt != nil {
		t.Errorf("without anything given a key is %+v", m)
	}
	g.Must(200, "DELETE", "/api_keys", admin, `{"id":"`+m.Data.ID+`"}`, nil)
	g.Must(200, "GET", "/api_keys", admin, "", &list)
	if len(list) != 1 {
		t.Errorf("%d keys are left", len(list))
	}
}

// Only ADMIN keys manage keys, and only those of their own account; of others
// they do not even learn that they exist.
func TestKeysOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "1")
	g.NewAccount("b", "1")
	admin, inference := g.Key("a", "--type", "ADMIN"), g.Key("a")
	id, secret := g.NewKey("b")
	for _, op := range []struct{ method, path, body string }{
		{"GET", "/api_keys", ""}, {"POST", "/api_keys", `{}`}, {"PATCH", "/api_keys", `{"id":"x"}`},
		{"DELETE", "/api_keys?id=" + id, ""},
		{"GET", "/api_keys/" + id, ""}, {"GET", "/api_keys/rate_limits/log", ""},
	} {
		if answer := g.Must(403, op.method, op.path, inference, op.body, nil); !strings.Contains(string(answer),
			`"UNAUTHORIZED"`) || !strings.Contains(string(answer), "ADMIN") {
			t.Errorf("%s %s: %s", op.method, op.path, answer)
		}
		g.Must(401, op.method, op.path, "", op.body, nil)
	}
	foreign := g.Must(404, "GET", "/api_keys/"+id, admin, "", nil)
	unknown := g.Must(404, "GET", "/api_keys/00000000-0000-4000-8000-000000000000", admin, "", nil)
	if string(foreign) != string(unknown) {
		t.Errorf("another account's key gives %s, one that does not exist %s", foreign, unknown)
	}
	g.Must(404, "PATCH", "/api_keys", admin, `{"id":"`+id+`","description":"mine"}`, nil)
	g.Must(404, "DELETE", "/api_keys?id="+id, admin, "", nil)
	g.Must(404, "DELETE", "/api_keys?id=x'%20OR%201=1--", admin, "", nil)
	g.Must(200, "GET", "/api_keys/rate_limits", secret, "", nil)
	g.Must(200, "GET", "/api_keys/rate_limits", inference, "", nil)
	var list []apiKey
	g.Must(200, "GET", "/api_keys", admin, "", &list)
	if slices.ContainsFunc(list, func(k apiKey) bool { return k.ID == id }) || len(list) != 2 {
		t.Errorf("the list of a is %+v", list)
	}
}

// Bodies about keys are strict: each mistake is named with its field and range,
// and nothing is made or changed.
func TestKeyBodiesAreStrict(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "")
	admin := g.Key("a", "--type", "ADMIN")
	id, _ := g.NewKey("a")
	long := strings.Repeat("ß", 65)
	for _, c := range []struct{ method, body, path, words string }{
		{"POST", `{"apiKeyType":"ROOT"}`, "apiKeyType", "INFERENCE, ADMIN"},
		{"POST", `{"apiKeyType":"inference"}`, "apiKeyType", "INFERENCE, ADMIN"},
		{"POST", `{"apiKeyType":5}`, "apiKeyType", "expected string"},
		{"POST", `{"description":"` + long + `"}`, "description", "at most 64 characters"},
		{"POST", `{"description":"a\u001bb"}`, "description", "control characters"},
		{"POST", `{"description":"` + "\xff" + `"}`, "description", "UTF-8"},
		{"POST", `{"description":["x"]}`, "description", "expected string"},
		{"POST", `{"consumptionLimit":{"usd":-1}}`, "consumptionLimit.usd", "0 to 9999999999"},
		{"POST", `{"consumptionLimit":{"usd":10000000000}}`, "consumptionLimit.usd", "9999999999"},
		{"POST", `{"consumption_limit":{"diem":1e99}}`, "consumption_limit.diem", "9999999999"},
		{"POST", `{"consumptionLimit":{"usd":"5"}}`, "consumptionLimit.usd", "expected number"},
		{"POST", `{"consumptionLimit":{"eur":5}}`, "consumptionLimit.eur", "consumptionLimit.eur"},
		{"POST", `{"consumptionLimit":5}`, "consumptionLimit", "expected object"},
		{"POST", `{"consumptionLimit":[]}`, "consumptionLimit", "expected object"},
		{"POST", `{"limitPeriod":"DAY"}`, "limitPeriod", "EPOCH, MONTH, LIFETIME"},
		{"POST", `{"modelPrivacy":"NONE"}`, "modelPrivacy", "ALL, PRIVATE_TEXT, PRIVATE_ONLY"},
		{"POST", `{"expiresAt":"tomorrow"}`, "expiresAt", "YYYY-MM-DD"},
		{"POST", `{"expiresAt":"2031-02-30"}`, "expiresAt", "YYYY-MM-DD"},
		{"POST", `{"expiresAt":"2031-02-03T04:05:06"}`, "expiresAt", "YYYY-MM-DD"},
		{"POST", `{"expiresAt":"2020-01-01"}`, "expiresAt", "to come"},
		{"POST", `{"expiresAt":1900000000}`, "expiresAt", "expected string"},
		{"POST", `{"expiresAt":"2031-01-01","expires_at":"2031-01-01"}`, "expiresAt", "one of them"},
		{"POST", `{"id":"x"}`, "id", "id: is not accepted"},
		{"POST", `{"name":"x"}`, "name", "name: is not accepted"},
		{"POST", `{"description":"a","description":"b"}`, "description", "more than once"},
		{"POST", `{"Description":"a"}`, "description", "without escapes"},
		{"POST", `[]`, "", "JSON object"},
		{"POST", ``, "", "empty"},
		{"POST", `{"description":`, "", "ends before"},
		{"PATCH", `{"description":"x"}`, "id", "required"},
		{"PATCH", `{"id":null}`, "id", "required"},
		{"PATCH", `{"id":"` + id + `","apiKeyType":"ADMIN"}`, "apiKeyType", "apiKeyType: is not accepted"},
		{"PATCH", `{"id":"` + id + `","expires_at":"2020-01-01"}`, "expires_at", "to come"},
		{"PATCH", `{"id":"` + id + `","consumption_limit":{"usd":-0.5}}`, "consumption_limit.usd", "negative"},
		{"DELETE", `{"id":"` + id + `","force":true}`, "force", "force: is not accepted"},
		{"DELETE", `{}`, "id", "required"},
	} {
		var e struct {
			Error  string
			Issues []struct{ Path []any }
		}
		req, err := http.NewRequest(c.method, g.URL+"/api_keys", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+admin)
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer := rig.ReadAll(t, res)
		if res.StatusCode != 400 || json.Unmarshal([]byte(answer), &e) != nil || !strings.Contains(e.Error, c.words) ||
			len(e.Issues) == 0 {
			t.Errorf("%s %s is answered %d %s", c.method, c.body, res.StatusCode, answer)
			continue
		}
		var path []string
		for _, p := range e.Issues[0].Path {
			path = append(path, fmt.Sprint(p))
		}
		if strings.Join(path, ".") != c.path {
			t.Errorf("%s %s: the path is %v, not %s", c.method, c.body, path, c.path)
		}
	}
	g.Must(413, "POST", "/api_keys", admin, `{"description":"`+strings.Repeat("x", 20<<10)+`"}`, nil)
	for query, words := range map[string]string{"page=0": "page", "page=x": "page", "limit=501": "limit",
		"limit=0": "limit", "limit=1.5": "limit", "page=%2B1": "page", "limit=": "limit"} {
		if answer := g.Must(400, "GET", "/api_keys?"+query, admin, "", nil); !strings.Contains(string(answer),
			words+" must be") {
			t.Errorf("%s: %s", query, answer)
		}
	}
	var list []apiKey
	g.Must(200, "GET", "/api_keys", admin, "", &list)
	if len(list) != 2 || list[1].Description != "" || list[1].limits() != "null null null" {
		t.Errorf("after refused bodies the keys are %+v", list)
	}
}

// The list comes in pages; the envelope and the strict bodies of the
// documentation are switches.
func TestKeyListPagesAndSwitches(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9")
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "")
	admin := g.Key("a", "--type", "ADMIN", "--description", "0")
	for i := 1; i < 6; i++ {
		g.Key("a", "--description", fmt.Sprint(i))
	}
	ends := time.Now().Add(5 * time.Second) // the command may take its time
	expired, _ := g.NewKey("a", "--expires", ends.UTC().Format(time.RFC3339Nano))
	time.Sleep(time.Until(ends) + 100*time.Millisecond)
	var got []string
	for page := 1; page <= 4; page++ {
		var list []apiKey
		g.Must(200, "GET", fmt.Sprintf("/api_keys?page=%d&limit=2", page), admin, "", &list)
		if list == nil {
			t.Error("an empty page is not []")
		}
		for _, k := range list {
			got = append(got, k.Description)
		}
	}
	if fmt.Sprint(got) != "[0 1 2 3 4 5]" {
		t.Errorf("the pages hold %v", got)
	}
	// An expired key is not active, but its owner can still reach it.
	var one struct{ Data apiKey }
	g.Must(200, "GET", "/api_keys/"+expired, admin, "", &one)
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+expired+`","expiresAt":null}`, nil)

	g.WriteConfig(text + "compat: { api_key_list: envelope, strict_api_keys: true }\n")
	g.Signal(rig.Hangup)
	var envelope struct {
		Object string
		Data   []apiKey
	}
	for end := time.Now().Add(time.Minute); envelope.Object == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the envelope did not come")
		}
		_, _, answer := g.Get("/api_keys", admin)
		_ = json.Unmarshal(answer, &envelope)
	}
	if envelope.Object != "list" || len(envelope.Data) != 7 {
		t.Errorf("the envelope is %+v", envelope)
	}
	for body, path := range map[string]string{`{"description":"x"}`: "apiKeyType",
		`{"apiKeyType":"ADMIN"}`: "description"} {
		if answer := g.Must(400, "POST", "/api_keys", admin, body, nil); !strings.Contains(string(answer),
			path+": is required") {
			t.Errorf("%s: %s", body, answer)
		}
	}
	g.Must(200, "POST", "/api_keys", admin, `{"description":"x","api_key_type":"INFERENCE"}`, nil)
}

// 20 keys a minute, whether or not they are deleted again in between.
func TestKeyCreationIsLimited(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "")
	g.NewAccount("b", "")
	admin, other := g.Key("a", "--type", "ADMIN"), g.Key("b", "--type", "ADMIN")
	for i := range 19 {
		var m made
		g.Must(200, "POST", "/api_keys", admin, `{}`, &m)
		if i%2 == 0 {
			g.Must(200, "DELETE", "/api_keys?id="+m.Data.ID, admin, "", nil)
		}
	}
	for range 2 {
		status, header, answer := g.Post("/api_keys", admin, `{}`)
		if status != 429 || header.Get("Retry-After") == "" ||
			!strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
			t.Errorf("the 21st key of a minute is answered %d %v %s", status, header, answer)
		}
	}
	g.Must(200, "POST", "/api_keys", other, `{}`, nil)
}

// modelPrivacy keeps a key away from models that are not private.
func TestModelPrivacyIsEnforced(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "  - id: sim-free\n",
		"  - id: sim-free\n    privacy: anonymized\n", 1)
	text += "  - id: sim-embed\n    type: embedding\n    tier: unlimited\n    privacy: anonymized\n    " +
		"embedding_dimensions: 16\n    max_input_tokens: 512\n    price: free\n    targets: [{ upstream: only }]\n"
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	admin := g.Key("a", "--type", "ADMIN")
	for privacy, status := range map[string]int{"ALL": 200, "PRIVATE_TEXT": 403, "PRIVATE_ONLY": 403} {
		var m made
		g.Must(200, "POST", "/api_keys", admin, `{"modelPrivacy":"`+privacy+`"}`, &m)
		answer := g.Must(status, "POST", "/chat/completions", m.Data.APIKey, rig.Ask("sim-free", "x", ""), nil)
		if status == 403 && !strings.Contains(string(answer), `"UNAUTHORIZED"`) {
			t.Errorf("%s: %s", privacy, answer)
		}
		g.Must(status, "POST", "/embeddings", m.Data.APIKey, `{"model":"sim-embed","input":"x"}`, nil)
		g.Must(200, "POST", "/chat/completions", m.Data.APIKey, rig.Ask("sim-chat", "x", ""), nil)
		if status == 403 {
			g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+m.Data.ID+`","modelPrivacy":"ALL"}`, nil)
			g.Must(200, "POST", "/chat/completions", m.Data.APIKey, rig.Ask("sim-free", "x", ""), nil)
		}
	}
}
