package operator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const secret = "what the proxy knows"

// settings let a proxy on this machine name users, one for each role.
const settings = `
operator:
  listen: %s
  hosts: [desk.example.com]
  max_credit: 20
  user_header: X-Forwarded-User
  trusted_proxies: [127.0.0.1]
  proxy_secret: ` + secret + `
  users: { reader: read-only, helper: support, biller: billing, boss: owner }
`

var users = []string{"reader", "helper", "biller", "boss"}

// desk is the operators' API of a gateway.
type desk struct {
	*rig.Gateway
	t    *testing.T
	base string // http://host:port/operator/v1
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	return deskOf(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
}

func deskOf(t *testing.T, config string) *desk {
	t.Helper()
	addr := rig.FreeAddr(t)
	g := rig.StartGateway(t, config+fmt.Sprintf(settings, addr))
	return &desk{g, t, "http://" + addr + "/operator/v1"}
}

// as makes a call of a user behind the proxy.
func (d *desk) as(user, method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	d.t.Helper()
	return d.send(method, path, body, append([]string{"X-Forwarded-User: " + user, "X-Farebox-Proxy-Secret: " + secret,
		"X-Farebox-Operator: 1"}, headers...)...)
}

// send makes a call with these headers alone. Host counts as one.
func (d *desk) send(method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.base+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, res.Header, string(text)
}

// must makes a call of the owner, which succeeds.
func (d *desk) must(method, path, body string, headers ...string) gjson.Result {
	d.t.Helper()
	status, _, answer := d.as("boss", method, path, body, headers...)
	if status != 200 {
		d.t.Fatalf("%s %s %s is answered %d %s", method, path, body, status, answer)
	}
	return gjson.Parse(answer)
}

// operation is one of the OpenAPI document.
type operation struct{ name, method, path, role string }

func (d *desk) operations() (list []operation) {
	d.t.Helper()
	d.must("GET", "/openapi.json", "").Get("paths").ForEach(func(path, of gjson.Result) bool {
		of.ForEach(func(method, o gjson.Result) bool {
			list = append(list, operation{o.Get("operationId").Str, strings.ToUpper(method.Str), path.Str, o.Get("x-role").Str})
			return true
		})
		return true
	})
	return list
}
