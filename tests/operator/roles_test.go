package operator

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"farebox/billing"
)

const rolesFile = "tests/operator/testdata/roles.txt"

var update = flag.Bool("update", false, "write "+rolesFile)

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Every role asks for every operation. testdata/roles.txt says which may; a new operation needs a line there.
func TestRolesTimesOperations(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	list := d.operations()
	for _, o := range billing.Operations() {
		if !slices.Contains(list, operation{o.Name, o.Method, o.Path, o.Right.String()}) {
			t.Errorf("%s %s (%s) is not served as the table has it", o.Method, o.Path, o.Name)
		}
	}
	var lines []string
	for _, o := range list {
		line := fmt.Sprintf("%-28s %-6s %s", o.name, o.method, o.path)
		for _, user := range users {
			status, _, answer := d.as(user, o.method, parameter.ReplaceAllString(o.path, "nobody"), "")
			refused := status == 403 && strings.Contains(answer, "Your role")
			if status == 403 && !refused || status == 401 || status == 500 {
				t.Errorf("%s as %s is answered %d %s", o.name, user, status, answer)
			}
			line += map[bool]string{true: " no", false: " yes"}[refused]
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	got := "# operation, method, path: read-only, support, billing, owner\n" + strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(rolesFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(rolesFile)
	if err != nil || got != string(want) {
		t.Errorf("the roles differ from testdata/roles.txt (%v); with -update they are written there:\n%s", err, got)
	}
}

// No operation is on the customers' listener, and no customer's key is an operator's.
func TestCustomersReachNoOperation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.NewAccount("a", "1")
	keys := []string{d.Key("a"), d.Key("a", "--type", "ADMIN")}
	n := 0
	for _, o := range d.operations() {
		path := parameter.ReplaceAllString(o.path, "a")
		for _, key := range keys {
			for _, prefix := range []string{"/operator/v1", "/api/v1/operator/v1", "/v1/operator/v1", "/api/v1/operator"} {
				at := d.Gateway.Origin + prefix + path
				if status := call(t, o.method, at, "Authorization: Bearer "+key, "X-Farebox-Operator: 1"); status != 404 && status != 405 {
					t.Errorf("%s %s is answered %d on the customers' listener", o.method, at, status)
				}
			}
			status, _, answer := d.send(o.method, path, "", "Authorization: Bearer "+key, "X-Farebox-Operator: 1")
			if status != 401 && status != 429 {
				t.Errorf("%s %s with a customer's key is answered %d %s", o.method, path, status, answer)
			}
			n++
		}
	}
	if n < 60 {
		t.Errorf("%d calls were made", n)
	}
}

func call(t *testing.T, method, url string, headers ...string) int {
	d := &desk{t: t, base: url}
	status, _, _ := d.send(method, "", "", headers...)
	return status
}
