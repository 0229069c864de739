package image

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"farebox/config"
	"farebox/routes"
)

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesOfEveryRowHoldAtTheirEdges(t *testing.T) {
	for _, row := range rows(&Capability{}) {
		if row.Form != routes.JSONBody && row.Form != routes.JSONOrForm {
			continue
		}
		if row.Rules == nil {
			t.Errorf("%s %s: nothing says what its body may have", row.Method, row.Path)
			continue
		}
		book := row.Rules(&config.Config{})
		for _, f := range book.Fields() {
			if strings.Contains(f.Path, ".") {
				continue
			}
			check := func(value string, right bool) {
				t.Helper()
				form, e := formOf("application/json", fmt.Appendf(nil, `{%q:%s}`, f.Path, value), book)
				if e != nil {
					t.Fatal(e)
				}
				if refused := slices.ContainsFunc(form.Issues, func(i routes.Issue) bool { return i.Path == f.Path }); refused == right {
					t.Errorf("%s: %s of %.40s is refused: %v", row.Path, f.Path, value, refused)
				}
			}
			r := f.Rule
			if r.Kinds == routes.Number && (r.Min != 0 || r.Max != 0) {
				check(fmt.Sprint(r.Min), !r.Above)
				check(fmt.Sprint(r.Min-1), false)
				if !math.IsInf(r.Max, 1) {
					check(fmt.Sprintf("%.0f", r.Max), true)
					check(fmt.Sprintf("%.0f", r.Max+1), false)
				}
			}
			if r.Kinds&routes.String != 0 && r.Length > 0 {
				check(`"`+strings.Repeat("x", r.Length)+`"`, true)
				check(`"`+strings.Repeat("x", r.Length+1)+`"`, false)
			}
			for _, word := range r.Enum {
				check(`"`+word+`"`, true)
				check(`"`+word+`x"`, false)
			}
		}
	}
}
