package operations

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// The document matches the server: the command line prints the server's answer, each
// example in it is carried out, and the answer has the described form.
func TestTheOpenAPIDocumentIsTrue(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	document := fetch(t, "GET", r.origin+"/api/v1/openapi.json", "", "")
	printed, err := rig.RunIn(t, r.dir, "openapi")
	version := regexp.MustCompile(`"version":"[0-9.]*"`)
	if err != nil || version.ReplaceAllString(strings.TrimSpace(printed), "") != version.ReplaceAllString(string(document), "") {
		t.Errorf("farebox openapi prints another document (%v): %.300s", err, printed)
	}
	var whole any
	if err := json.Unmarshal(document, &whole); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", whole); err != nil {
		t.Fatal(err)
	}
	examples := 0
	gjson.GetBytes(document, "paths").ForEach(func(path, operations gjson.Result) bool {
		operations.ForEach(func(method, operation gjson.Result) bool {
			const json200 = `responses.200.content.application/json.schema`
			at := "openapi.json#/paths/" + pointer(path.Str) + "/" + method.Str + "/responses/200/content/application~1json/schema"
			example := operation.Get(`requestBody.content.application/json.example`)
			if !example.Exists() || !operation.Get(json200).Exists() {
				return true
			}
			schema, err := compiler.Compile(at)
			if err != nil {
				t.Errorf("%s %s: %v", method.Str, path.Str, err)
				return true
			}
			examples++
			answer := fetch(t, strings.ToUpper(method.Str), r.origin+"/api/v1"+path.Str, r.admin, example.Raw)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
			if err != nil {
				t.Errorf("%s %s: %v: %s", method.Str, path.Str, err, answer)
			} else if err := schema.Validate(value); err != nil {
				t.Errorf("%s %s: %v\n%s", method.Str, path.Str, err, answer)
			}
			return true
		})
		return true
	})
	if examples < 10 {
		t.Errorf("%d examples were carried out", examples)
	}
	if rule := gjson.GetBytes(document, `paths./chat/completions.post.requestBody.content.application/json.schema.properties.temperature`); rule.Get("maximum").Num != 2 {
		t.Errorf("the temperature may be %s", rule.Raw)
	}
}

func pointer(path string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path)
}

// fetch calls an endpoint, which must answer with 200.
func fetch(t *testing.T, method, url, key, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if req.Header.Set("Content-Type", "application/json"); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%s %s %s is answered %d %s (%v)", method, url, body, res.StatusCode, answer, err)
	}
	return answer
}

// The document is compressed for those who take that, and is the same.
func TestTheOpenAPIDocumentIsCompressed(t *testing.T) {
	t.Parallel()
	g := newReader(t)
	whole := fetch(t, "GET", g.origin+"/api/v1/openapi.json", "", "")
	for range 2 {
		req, err := http.NewRequest("GET", g.origin+"/api/v1/openapi.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := gzip.NewReader(res.Body)
		if err != nil {
			t.Fatal(err, res.Header)
		}
		text, err := io.ReadAll(packed)
		_ = res.Body.Close()
		if err != nil || !bytes.Equal(text, whole) || res.ContentLength > int64(len(whole))/4 {
			t.Errorf("%d bytes are %d packed ones (%v)", len(text), res.ContentLength, err)
		}
	}
}
