package operator

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// generatedCall is a step as a client makes it that was made of the document.
type generatedCall struct {
	Operation string          `json:"operation"`
	Arguments map[string]any  `json:"arguments"` // by the names of the parameters
	Body      json.RawMessage `json:"body"`
	Status    int             `json:"status"`
	Keep      string          `json:"keep"`
	Raw       bool            `json:"raw"` // its answer is not JSON
	method    string
	path      string            // with its parameters in braces
	in        map[string]string // where a parameter is: path, query or header
}

// generatedCalls are the steps for clients that know the document.
func generatedCalls(t *testing.T, document gjson.Result) (list []generatedCall) {
	t.Helper()
	known := map[string]generatedCall{}
	document.Get("paths").ForEach(func(path, of gjson.Result) bool {
		of.ForEach(func(method, o gjson.Result) bool {
			known[o.Get("operationId").Str] = generatedCall{method: method.Str, path: path.Str, Body: json.RawMessage(o.Raw)}
			return true
		})
		return true
	})
	for _, s := range steps {
		c, ok := known[s.operation]
		if !ok {
			t.Fatalf("there is no operation %s", s.operation)
		}
		o := gjson.ParseBytes(c.Body)
		c.Operation, c.Status, c.Keep, c.Raw = s.operation, s.status, s.keep, o.Get("responses.200.content").Raw == "" || s.operation == "get_openapi"
		c.Arguments, c.in, c.Body = map[string]any{}, map[string]string{}, nil
		if s.body != "" {
			c.Body = json.RawMessage(s.body)
		}
		place, query, _ := strings.Cut(s.path, "?")
		values := map[string]string{"X-Farebox-Operator": "1"}
		if c.method == "patch" {
			values["If-Match"] = "*"
			if strings.HasPrefix(s.path, "/accounts") {
				values["If-Match"] = `"[version]"`
			}
		}
		parts := strings.Split(place, "/")
		for i, part := range strings.Split(c.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				values[strings.TrimSuffix(name, "}")] = parts[i]
			}
		}
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		for _, p := range o.Get("parameters").Array() {
			name := p.Get("name").Str
			value, given := values[name]
			if !given {
				continue
			}
			c.Arguments[name], c.in[name] = value, p.Get("in").Str
			if p.Get("schema.type").Str == "integer" {
				c.Arguments[name] = json.RawMessage(value)
			}
		}
		list = append(list, c)
	}
	return list
}

var keptName = regexp.MustCompile(`"([^"\\]*)((?:\\"[^"\\]*)*)\[(\w+)\]([^"\\]*)((?:\\"[^"\\]*)*)"`)

// literal is a value in TypeScript. Names in brackets are values of earlier answers.
func literal(v any) string {
	text, _ := json.Marshal(v)
	return keptName.ReplaceAllString(string(text), "`$1$2${kept.$3}$4$5`")
}

// typeScript is a program that makes the calls: it compiles only if they are as the types have them.
func typeScript(calls []generatedCall) string {
	var b strings.Builder
	b.WriteString(`import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

declare const process: { env: Record<string, string> };
const kept: Record<string, string> = { folder: process.env.DESK_FOLDER };
const keep = (value: unknown, path: string) => String(path.split(".").reduce((v: any, name) => v[name], value as any));
const client = createClient<paths>({ baseUrl: process.env.DESK_URL, headers: { Authorization: "Bearer " + process.env.DESK_TOKEN } });
const check = (operation: string, wanted: number, got: { response: Response, error?: unknown }) => {
  if (got.response.status !== wanted) console.log(operation, "is answered", got.response.status, JSON.stringify(got.error));
};
`)
	for _, c := range calls {
		var params []string
		for _, in := range []string{"path", "query", "header"} {
			var members []string
			for name, value := range c.Arguments {
				if c.in[name] == in {
					members = append(members, fmt.Sprintf("%q: %s", name, literal(value)))
				}
			}
			if members != nil {
				params = append(params, in+": { "+strings.Join(members, ", ")+" }")
			}
		}
		var options []string
		if params != nil {
			options = append(options, "params: { "+strings.Join(params, ", ")+" }")
		}
		if c.Body != nil {
			options = append(options, "body: "+literal(c.Body))
		}
		if c.Raw {
			options = append(options, `parseAs: "arrayBuffer"`)
		}
		fmt.Fprintf(&b, "{\n  const got = await client.%s(%q, { %s });\n  check(%q, %d, got);\n", strings.ToUpper(c.method), c.path,
			strings.Join(options, ", "), c.Operation, c.Status)
		if name, path, ok := strings.Cut(c.Keep, "="); ok {
			fmt.Fprintf(&b, "  kept.%s = keep(got.data, %q);\n", name, path)
		}
		b.WriteString("}\n")
	}
	b.WriteString(`console.log("done");` + "\n")
	return b.String()
}

// "We generated a client of your document, and half of its calls did not compile." Both generators
// take the document, and their clients call every operation.
func TestLongGeneratedClientsCallEveryOperation(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"Python", "TypeScript"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			document := d.must("GET", "/openapi.json", "")
			_, bearer := d.token("owner")
			tools := rig.NewDocumentTools(t, document.Raw, "DESK_URL="+d.base, "DESK_TOKEN="+strings.TrimPrefix(bearer, "Authorization: Bearer "),
				"DESK_FOLDER="+filepath.ToSlash(t.TempDir()))
			calls := generatedCalls(t, document)
			var said string
			if language == "Python" {
				text, err := json.Marshal(calls)
				if err != nil {
					t.Fatal(err)
				}
				tools.Write("calls.json", string(text))
				tools.MakePython()
				tools.Copy("desk.py")
				said = tools.Run(tools.Tool(".venv", "bin", "python"), "desk.py", ".")
			} else {
				tools.Write("desk.ts", typeScript(calls))
				tools.MakeTypeScript("api.d.ts", "desk.ts")
				said = tools.Run("node", "js/desk.js")
			}
			if strings.TrimSpace(said) != "done" {
				t.Errorf("the client says\n%s", said)
			}
		})
	}
}
