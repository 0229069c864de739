package operations

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// neverWrong are the endpoints with a key that no request can get a 4xx from which counts.
var neverWrong = map[string]bool{
	"get /image/styles": true, "get /api_keys/rate_limits": true, "get /api_keys/rate_limits/log": true,
	"get /billing/balance": true,
}

// A new endpoint must not lack the budget of failed requests (addendum 3.6): each of the
// document refuses a key that has failed 20 times there.
func TestEveryEndpointHasABudgetOfFailures(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	document := fetch(t, "GET", r.origin+"/api/v1/openapi.json", "", "")
	walked := 0
	gjson.GetBytes(document, "paths").ForEach(func(path, operations gjson.Result) bool {
		operations.ForEach(func(method, operation gjson.Result) bool {
			at := method.Str + " " + path.Str
			if !operation.Get("security.#.key").Exists() || operation.Get("security.#.key").Raw == "[]" || neverWrong[at] {
				return true
			}
			walked++
			key := freshKey(t, r)
			last := 0
			for n := 0; n < 25 && last != 429; n++ {
				var answer string
				if last, answer = wrongly(t, r, method.Str, path.Str, key, operation); last < 400 || last >= 500 {
					t.Errorf("%s: request %d: %d %s", at, n, last, answer)
					return true
				}
				if last == 429 && n < 20 {
					t.Errorf("%s: refused after %d failures: %s", at, n, answer)
				}
			}
			if last != 429 {
				t.Errorf("%s: 25 failures, the last is %d", at, last)
			}
			return true
		})
		return true
	})
	if t.Logf("%d endpoints were walked", walked); walked < 40 {
		t.Error("these are not all endpoints")
	}
}

// freshKey is an ADMIN key, which may do everything.
func freshKey(t *testing.T, r *reader) string {
	t.Helper()
	cmd := exec.Command(r.farebox, "key", "create", "--account", "demo", "--type", "ADMIN", "--json")
	cmd.Dir, cmd.Env = r.dir, r.environment
	out, err := cmd.Output()
	key := gjson.GetBytes(out, "apiKey").Str
	if err != nil || key == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return key
}

// wrongly sends a request to an endpoint that is wrong in whatever may be wrong there.
func wrongly(t *testing.T, r *reader, method, path, key string, operation gjson.Result) (int, string) {
	t.Helper()
	kind, body := "application/json", []byte(`{"no_such_member":1}`)
	content := operation.Get("requestBody.content")
	if content.Exists() && !content.Get("application/json").Exists() {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		_ = w.WriteField("no_such_member", "1")
		_ = w.Close()
		kind, body = w.FormDataContentType(), form.Bytes()
	}
	if strings.HasPrefix(path, "/crypto/rpc/") {
		body = []byte(`[]`)
	}
	at := strings.NewReplacer("{id}", "nope", "{slug}", "nope", "{network}", "ethereum-mainnet").Replace(path)
	if !content.Exists() {
		body = nil
		at += "?limit=x&page=x&page_size=x&type=nope&pageSize=5&lookback=x&id=nope&model=nope&request_id=nope&order=x"
	}
	req, err := http.NewRequest(strings.ToUpper(method), r.origin+"/api/v1"+at, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// A client that names a model of another type reads its type, not that it does not exist.
func TestModelsOfOtherTypesAreNamed(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	ids := map[string]string{}
	gjson.GetBytes(fetch(t, "GET", r.origin+"/api/v1/models?type=all", r.key, ""), "data").ForEach(func(_, m gjson.Result) bool {
		if ids[m.Get("type").Str] == "" {
			ids[m.Get("type").Str] = m.Get("id").Str
		}
		return true
	})
	for _, row := range []struct{ path, takes, body string }{
		{"/chat/completions", "text", `{"model":"%","messages":[{"role":"user","content":"a"}]}`},
		{"/responses", "text", `{"model":"%","input":"a"}`},
		{"/messages", "text", `{"model":"%","max_tokens":9,"messages":[{"role":"user","content":"a"}]}`},
		{"/messages/count_tokens", "text", `{"model":"%","messages":[{"role":"user","content":"a"}]}`},
		{"/embeddings", "embedding", `{"model":"%","input":"a"}`},
		{"/image/generate", "image", `{"model":"%","prompt":"a"}`},
		{"/images/generations", "image", `{"model":"%","prompt":"a"}`},
		{"/image/edit", "inpaint", `{"model":"%","prompt":"a","image":"iVBORw0KGgo="}`},
		{"/images/edits", "inpaint", `{"model":"%","prompt":"a","image":"iVBORw0KGgo="}`},
		{"/audio/speech", "tts", `{"model":"%","input":"a"}`},
		{"/audio/quote", "music", `{"model":"%"}`},
		{"/video/quote", "video", `{"model":"%","duration":"5s"}`},
	} {
		for typ, id := range ids {
			if typ == row.takes || row.path == "/images/edits" && typ == "image" {
				continue // OpenAI's models draw and edit under one name
			}
			req, _ := http.NewRequest("POST", r.origin+"/api/v1"+row.path, strings.NewReader(strings.ReplaceAll(row.body, "%", id)))
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(res.Body)
			res.Body.Close()
			if text := string(answer); err != nil || res.StatusCode != 400 || !strings.Contains(text, "is of type "+typ+";") ||
				!strings.Contains(text, "models of type "+row.takes) {
				t.Errorf("%s with a model of type %s: %d %s", row.path, typ, res.StatusCode, text)
			}
		}
	}
	if len(ids) < 9 || ids["background_removal"] == "" {
		t.Errorf("these types have models: %v", ids)
	}
}
