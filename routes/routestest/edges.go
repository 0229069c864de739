package routestest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/routes"
)

// edgesConfig is the config of Edges, beside the parts that the capabilities need.
const edgesConfig = `
log: { level: error }
limits: { failed_requests: { count: 0 } }
upstreams: [{ name: only, base_url: "http://ADDR/v1" }]
models: [{ id: m, context_tokens: 1000, price: free, targets: [{ upstream: only }] }]
`

// Edges sends every top member of every JSON body that the capabilities take, at the edges of its
// rule and one step beyond them, and checks the endpoint's issues. with has, by member, the other
// members that a body needs.
func Edges(t *testing.T, config string, with map[string]string, capabilities ...routes.Capability) {
	t.Helper()
	rig := Start(t, config+edgesConfig, "127.0.0.1:9", capabilities...) // no request gets as far as an upstream
	accounts, err := billing.All(rig.Ledger, billing.ListAccounts{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := billing.Do(rig.Ledger, billing.CreateKey{NewKey: billing.NewKey{Account: accounts[0].ID, Type: store.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rig.Gateway.Config()
	for _, row := range rig.Gateway.Rows() {
		if row.Rules == nil || row.Form == routes.FormBody || row.Offered != nil && !row.Offered(cfg) {
			continue
		}
		fields := row.Rules(cfg).Fields()
		for _, f := range fields {
			if strings.Contains(f.Path, ".") {
				continue
			}
			before := with[f.Path]
			if f.Rule.Characters > 0 {
				before += needs(fields, f.Path) // characters are counted in bodies without other issues
			}
			check := func(value string, right bool) {
				t.Helper()
				body := `{` + before + fmt.Sprintf(`%q:%s}`, f.Path, value)
				status, answer := rig.send(row.Method, row.Path, body, key.Secret, "")
				refused := refuses(answer, f.Path)
				if refused == right || status == 0 || status >= 500 {
					t.Errorf("%s %s: %s of %.40s is refused: %v; answered %d %.200s",
						row.Method, row.Path, f.Path, value, refused, status, answer)
				}
			}
			edgesOf(f.Rule, check)
			if f.Rule.Kinds&routes.Array == 0 {
				continue
			}
			one, most := "{}", f.Rule.Items
			if of := f.Rule.Elements; of != nil {
				edgesOf(of, func(value string, right bool) { check("["+value+"]", right) })
				if one = `"x"`; of.Kinds&routes.Number != 0 {
					one = "1"
				}
			}
			if most == 0 && f.Rule.Kinds == routes.Array {
				most = f.Rule.Length
			}
			if most > 0 {
				check("["+strings.Repeat(one+",", most-1)+one+"]", true)
				check("["+strings.Repeat(one+",", most)+one+"]", false)
			}
		}
	}
}

// needs are the members but one that a body must have and its reader asks for.
func needs(fields []routes.Field, but string) (members string) {
	for _, f := range fields {
		if !f.Required || f.Rule.Required || f.Path == but {
			continue
		}
		value := "x"
		if len(f.Rule.Enum) > 0 {
			value = f.Rule.Enum[0]
		}
		members += fmt.Sprintf("%q:%q,", f.Path, value)
	}
	return members
}

// edgesOf has the values at and beyond the edges of a rule checked.
func edgesOf(r *routes.Rule, check func(value string, right bool)) {
	if r.Kinds&routes.Bool == 0 {
		check("true", false)
	}
	if r.Kinds == routes.Number && (r.Min != 0 || r.Max != 0) {
		check(fmt.Sprint(r.Min), !r.Above)
		check(fmt.Sprint(r.Min-1), false)
		if !math.IsInf(r.Max, 1) {
			check(fmt.Sprintf("%.0f", r.Max), true)
			check(fmt.Sprintf("%.0f", r.Max+1), false)
		}
	}
	if r.Integer {
		check("1.5", false)
	}
	if r.Kinds&routes.String == 0 {
		return
	}
	text := func(letter string, n int) string { return `"` + strings.Repeat(letter, n) + `"` }
	if r.NonEmpty {
		check(`""`, false)
	}
	if r.Characters > 0 {
		check(text("é", r.Characters), true)
		check(text("é", r.Characters+1), false)
	}
	if r.Length > 0 {
		if r.Characters == 0 && r.Format == "" {
			check(text("x", r.Length), true)
		}
		check(text("x", r.Length+1), false)
	}
	for _, word := range r.Enum {
		check(`"`+word+`"`, true)
		check(`"`+word+`x"`, false)
	}
}

// refuses says that an answer has an issue with a top member, or with an element of it.
func refuses(answer, member string) bool {
	var said struct {
		Issues []struct{ Path []any }
	}
	_ = json.Unmarshal([]byte(answer), &said) // an answer that is not JSON has no issues
	for _, i := range said.Issues {
		if len(i.Path) == 0 || len(i.Path) > 2 || i.Path[0] != member {
			continue
		}
		if _, isIndex := i.Path[len(i.Path)-1].(float64); isIndex || len(i.Path) == 1 {
			return true
		}
	}
	return false
}
