package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// paths are all endpoints, and some that are none.
var paths = strings.Fields(
	`/chat/completions /embeddings /image/generate /image/edit /image/multi-edit /image/upscale /images/upscale /image/background-remove /image/styles /images/generations /images/edits
	/models /models/traits /models/compatibility_mapping /models/chat-openai /api_keys /api_keys/generate_web3_key /api_keys/x /api_keys/rate_limits /api_keys/rate_limits/log /billing/balance /billing/usage /billing/usage-history
	/billing/usage-analytics /crypto/rpc/networks /crypto/rpc/ethereum-mainnet /nope /chat/completions/ /CHAT/completions /models/ //healthz //readyz //metrics // //api/v1 //api/v2/models //api/v1//models /models%2ftraits /../models`)

// edges are methods, credentials, pages of other origins, and heads that are no
// HTTP.
func (l *lab) edges(c *customer) {
	for _, path := range paths {
		probe := strings.HasPrefix(path, "//")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "WHAT"} {
			l.do(step{name: method + " " + path + " without a key", method: method, path: path})
			if method != "DELETE" || path != "/api_keys" {
				l.do(step{name: method + " " + path + " with a key", method: method, path: path, key: c.worker})
			}
		}
		if probe {
			continue
		}
		for _, h := range []string{"Authorization: Basic eDp5", "Authorization: Bearer", "Authorization: Bearer x",
			"Authorization: " + c.worker, "X-Api-Key: " + c.worker, "Authorization: bearer " + c.worker,
			"Authorization: Bearer SVC_INFERENCE_KEY_" + strings.Repeat("x", 43)} {
			l.do(step{name: path + " with " + h, path: path, headers: []string{h}, body: `{"x":1}`})
		}
		for _, origin := range []string{"https://app.example.com", "https://other.example.com", "null",
			"http://localhost:3000"} {
			l.do(step{name: "preflight of " + path + " from " + origin, method: "OPTIONS", path: path,
				headers: []string{"Origin: " + origin, "Access-Control-Request-Method: POST",
					"Access-Control-Request-Headers: authorization, content-type, x-stainless-lang"}})
			l.do(step{name: path + " from " + origin, method: "GET", path: path,
				headers: []string{"Origin: " + origin}})
		}
	}
	for i, raw := range []string{
		"GET / HTTP/1.0\r\n\r\n", "GET /api/v1/models HTTP/1.0\r\nHost: x\r\n\r\n",
		"GET /api/v1/models HTTP/1.1\r\n\r\n", "GET /api/v1/models HTTP/2.0\r\nHost: x\r\n\r\n", "nonsense\r\n\r\n",
		"GET  /x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /api/v1/models HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n",
		"GET /api/v1/models HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 70000) + "\r\n\r\n",
		"GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST /api/v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.worker +
			"\r\nContent-Type: application/json\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n10\r\n{\"model\":\"embed-\r\n1d\r\n1\",\"input\":\"a\",\"dimensions\":4}\r\n0\r\n\r\n",
		"POST /api/v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.worker +
			"\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: " +
			"46\r\n\r\n{\"model\":\"embed-1\",\"input\":\"a\",\"dimensions\":4}",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.worker +
			"\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
		"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.worker +
			"\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n",
	} {
		l.wire.close()
		l.do(step{name: fmt.Sprint("raw ", i), raw: raw})
		l.wire.close()
	}
	l.do(step{name: "oversized", path: "/chat/completions", key: c.worker,
		body: chatBody("chat-openai", strings.Repeat("x", 2<<20), "")})
	l.do(step{name: "oversized calls", path: "/crypto/rpc/ethereum-mainnet", key: c.worker,
		body: `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["` + strings.Repeat("x", 2<<20) + `"]}`})
	l.do(step{name: "oversized keys", path: "/api_keys", key: c.admin,
		body: `{"description":"` + strings.Repeat("x", 20<<10) + `"}`})
}

// catalog are the lists.
func (l *lab) catalog(c *customer) {
	for _, key := range []string{"", c.worker, c.admin} {
		for _, path := range []string{"/models", "/models/traits", "/models/compatibility_mapping"} {
			for _, t := range []string{"", "?type=", "?type=all", "?type=text", "?type=embedding", "?type=image",
				"?type=inpaint", "?type=upscale", "?type=code", "?type=asr", "?type=tts", "?type=video", "?type=music",
				"?type=TEXT", "?type=x&type=y", "?x=1"} {
				l.do(step{name: "catalog " + path + t, method: "GET", path: path + t, key: key})
			}
		}
		for _, path := range []string{"/models/chat-openai", "/models/gpt-4.1", "/models/default", "/models/nobody",
			"/models/embed-1", "/models/tiers", "/models/chat-gone", "/models/a/b", "/image/styles"} {
			l.do(step{name: "catalog " + path, method: "GET", path: path, key: key})
		}
		l.do(step{name: "catalog, compressed", method: "GET", path: "/models?type=all", key: key,
			headers: []string{"Accept-Encoding: gzip, br"}})
	}
}

// apiKeys are keys that are made, changed, listed and deleted.
func (l *lab) apiKeys(c *customer) {
	do := func(method, path, body string) *answer {
		return l.do(step{name: "keys: " + method + " " + path + " " + body[:min(len(body), 120)], method: method,
			path: path, key: c.admin, body: body})
	}
	create := func(body string) (id, secret string) {
		a := do("POST", "/api_keys", body)
		var k struct {
			Data struct {
				ID     string `json:"id"`
				APIKey string `json:"apiKey"`
			} `json:"data"`
		}
		_ = json.Unmarshal(a.body, &k)
		return k.Data.ID, k.Data.APIKey
	}
	for _, v := range append(odd, `"INFERENCE"`, `"ROOT"`, `"2091-01-01"`, `"2020-01-01"`, `"2091-01-01T00:00:00Z"`,
		`"tomorrow"`, `{"usd":1}`, `{"usd":-1}`, `{"usd":1e99}`, `{"usd":0.0000000001}`, `"MONTH"`, `"ALL"`) {
		for _, member := range strings.Fields(
			`apiKeyType api_key_type description expiresAt expires_at consumptionLimit consumption_limit limitPeriod limit_period modelPrivacy model_privacy id name address`) {
			if strings.HasPrefix(v, `"`) && v != `""` && member == "description" || v == "null" && len(member) != 10 {
				continue // keys that are made; each account may have so many
			}
			do("PATCH", "/api_keys", `{"id":"`+c.workerID+`","`+member+`":`+v+`}`)
		}
	}
	do("PATCH", "/api_keys",
		`{"id":"`+c.workerID+`","description":"worker","expiresAt":null,"consumptionLimit":{"usd":null,"diem":null},"limitPeriod":"EPOCH","modelPrivacy":"ALL"}`)
	full, fullSecret := create(
		`{"apiKeyType":"INFERENCE","description":"with everything","consumptionLimit":{"usd":0.00002,"diem":1},"limitPeriod":"MONTH","expiresAt":"2091-01-01","modelPrivacy":"PRIVATE_TEXT"}`)
	_, private := create(`{"apiKeyType":"INFERENCE","description":"private","modelPrivacy":"PRIVATE_ONLY"}`)
	_, boss := create(`{"apiKeyType":"ADMIN","description":"another boss"}`)
	for _, body := range []string{`{}`, ``, `[]`, `{"apiKeyType":"ROOT"}`, `{"apiKeyType":5}`,
		`{"description":"a\u001bb"}`, `{"description":"` + strings.Repeat("ß", 65) + `"}`,
		`{"consumptionLimit":{"eur":5}}`, `{"consumptionLimit":5}`, `{"expiresAt":"2031-02-30"}`,
		`{"expiresAt":"2091-01-01","expires_at":"2091-01-01"}`, `{"description":"a","description":"b"}`,
		`{"Description":"a"}`, `{"apikeytype":"ADMIN"}`,
		`{"limitPeriod":"DAILY","modelPrivacy":"NONE","apiKeyType":"ROOT","x":true}`,
		`{"consumptionLimit":{"usd":1},"consumption_limit":{"usd":1}}`} {
		do("POST", "/api_keys", body)
	}
	for range 3 {
		l.do(step{name: "a key with a limit", path: "/chat/completions", key: fullSecret,
			body: chatBody("chat-openai", "[[sim tokens=3]] hello", `,"max_completion_tokens":5`)})
	}
	for _, model := range []string{"chat-openai", "chat-plain", "embed-1"} {
		l.do(step{name: "a private key", path: "/chat/completions", key: private,
			body: chatBody(model, "[[sim tokens=3]] hello", "")})
	}
	l.do(step{name: "models of a private key", method: "GET", path: "/models", key: private})
	l.do(step{name: "a model of a private key", method: "GET", path: "/models/chat-plain", key: private})
	for _, q := range []string{"", "?page=1&limit=2", "?page=2&limit=2", "?page=0", "?page=x", "?limit=501", "?limit=",
		"?page=1&page=2", "?x=1"} {
		do("GET", "/api_keys"+q, "")
		do("GET", "/api_keys/rate_limits"+q, "")
		do("GET", "/api_keys/rate_limits/log"+q, "")
	}
	for i, id := range []string{full, "x", strings.ToUpper(full), c.workerID} {
		l.do(step{name: fmt.Sprint("keys: one of them ", i), method: "GET", path: "/api_keys/" + id, key: c.admin})
	}
	l.do(step{name: "the limits of a key with a limit", method: "GET", path: "/api_keys/rate_limits", key: fullSecret})
	l.do(step{name: "the keys for a worker", method: "GET", path: "/api_keys", key: c.worker})
	for _, f := range []struct{ query, body string }{{"", `{}`}, {"", ``}, {"?id=x", ``}, {"?id=" + full + "&id=x", ``},
		{"?id=" + full, `{"id":"x"}`}, {"", `{"id":"` + full + `","force":true}`}, {"?id=" + full, ``},
		{"?id=" + full, ``}} {
		do("DELETE", "/api_keys"+f.query, f.body)
	}
	l.do(step{name: "a key that is gone", path: "/chat/completions", key: fullSecret,
		body: chatBody("chat-free", "hello", "")})
	l.do(step{name: "another boss", method: "GET", path: "/billing/balance", key: boss})
}

// empty is an account without money.
func (l *lab) empty(c *customer) {
	for _, f := range []struct{ path, body string }{
		{"/chat/completions", chatBody("chat-openai", "hello", "")},
		{"/chat/completions", chatBody("chat-openai", "hello", `,"stream":true`)},
		{"/chat/completions", chatBody("chat-free", "[[sim tokens=3]] hello", "")},
		{"/embeddings", `{"model":"embed-1","input":"a"}`}, {"/image/generate",
			`{"model":"openai-paint","prompt":"x"}`},
		{"/images/generations", `{"model":"openai-paint","prompt":"x"}`},
		{"/image/upscale", `{"image":"` + text64(drawn("png", 256, 256)) + `"}`},
		{"/crypto/rpc/ethereum-mainnet", `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`},
	} {
		l.do(step{name: "empty account " + f.path, path: f.path, key: c.worker, body: f.body})
		l.do(step{name: "empty account, OpenAI's package " + f.path, path: f.path, key: c.worker,
			headers: []string{"X-Stainless-Lang: python"}, body: f.body})
	}
	l.cli("account", "credit", c.account, "0.00005", "--ref", "a little")
	for i := range 4 {
		l.do(step{name: fmt.Sprint("a little money ", i), path: "/chat/completions", key: c.worker,
			body: chatBody("chat-openai", "[[sim tokens=3]] hello", `,"max_completion_tokens":4`)})
		l.do(step{name: fmt.Sprint("a little money, beyond what was asked ", i), path: "/chat/completions",
			key: c.worker, body: chatBody("chat-openai", "[[sim tokens=30 ignore_cap=1]] hello",
				`,"max_completion_tokens":4,"stream":true`)})
	}
	l.do(step{name: "the balance of a little", method: "GET", path: "/billing/balance", key: c.admin})
}

// diem are days' allowances.
func (l *lab) diem() {
	c := l.customer("daily", "")
	l.cli("account", "diem", "daily", "--daily", "0.1")
	for range 2 {
		l.do(step{name: "paid in DIEM", path: "/chat/completions", key: c.worker,
			body: chatBody("chat-openai", "[[sim tokens=9]] hello", "")})
	}
	l.do(step{name: "the balance in DIEM", method: "GET", path: "/billing/balance", key: c.admin})
	l.do(step{name: "the usage in DIEM", method: "GET", path: "/billing/usage?currency=DIEM", key: c.admin})
	l.cli("account", "diem", "daily", "--daily", "0.01")
	l.cli("account", "diem", "daily", "--daily", "0")
}

// operator are the commands of one, beside the running server.
func (l *lab) operator(c *customer) {
	for _, args := range [][]string{
		{"account", "show", "rich"}, {"account", "show", "rich", "--json"}, {"account", "show", "nobody"},
		{"account", "create", "--name", "rich"}, {"account", "create", "--name", ""},
		{"account", "credit", "rich", "1.5", "--ref", "r1"}, {"account", "credit", "rich", "1.5", "--ref", "r1"},
		{"account", "credit", "rich", "2", "--ref", "r1"}, {"account", "credit", "rich", "-1"},
		{"account", "credit", "rich", "x"}, {"account", "credit", "nobody", "1"},
		{"account", "credit", "rich", "1", "--currency", "EUR"},
		{"account", "debit", "rich", "0.5", "--ref", "d1", "--reason", "why"},
		{"account", "debit", "rich", "0.5", "--ref", "d1", "--reason", "why"}, {"account", "debit", "rich", "0.5"},
		{"account", "refund", "rich", "0.0001", "--ref", "x"}, {"account", "suspend", "poor"},
		{"account", "suspend", "poor"}, {"account", "resume", "poor"}, {"account", "show", "poor"},
		{"key", "create", "--account", "rich", "--type", "ROOT"}, {"key", "create", "--account", "nobody"},
		{"key", "create", "--account", "poor", "--description", "d", "--expires", "2091-01-01", "--json"},
		{"key", "list", "--account", "poor"}, {"key", "list", "--account", "poor", "--json"},
		{"key", "limits", c.workerID, "--usd", "100000"}, {"key", "limits", c.workerID, "--usd", "none"},
		{"key", "limits", c.workerID, "--usd", "x"}, {"key", "limits", "nobody"}, {"key", "revoke", "nobody"},
		{"usage", "--account", "rich"}, {"usage", "--by", "x"}, {"usage", "--from", "2020-13-01"},
		{"usage", "--from", "2020-01-02", "--to", "2020-01-01"}, {"node", "list"}, {"node", "release", "x"},
	} {
		l.cli(args...)
	}
}

// billing are the reports that customers get.
func (l *lab) billing(c *customer) {
	get := func(path string, headers ...string) *answer {
		return l.do(step{name: "billing " + path[:min(len(path), 90)], method: "GET", path: "/billing/" + path,
			key: c.admin, headers: headers})
	}
	get("balance")
	for _, q := range []string{"", "?limit=500", "?limit=500&sortOrder=asc", "?limit=10&page=2",
		"?limit=10&page=3&sort_order=ASC", "?page=99999", "?limit=0", "?limit=501", "?limit=x", "?page=-1",
		"?currency=USD", "?currency=DIEM&limit=5", "?currency=VCU", "?currency=BUNDLED_CREDITS", "?currency=EUR",
		"?sortOrder=x", "?startDate=2020-01-01&endDate=2091-01-01&limit=7", "?start_date=2020-01-01",
		"?startDate=2091-01-01", "?startDate=2020-01-02&endDate=2020-01-01", "?startDate=x",
		"?startDate=2020-01-01T10:00:00Z", "?startDate=2020-01-01T10:00:00%2B02:00",
		"?startDate=2020-01-01&start_date=2020-01-02", "?format=csv&limit=500", "?format=json", "?format=xml",
		"?limit=1&limit=2", "?x=1", "?limit=500&page=2", "?limit=500&page=3&sortOrder=asc",
		"?limit=500&page=4&sortOrder=asc&format=csv"} {
		get("usage" + q)
	}
	get("usage", "Accept: text/csv")
	get("usage?limit=300", "Accept-Encoding: gzip")
	for _, q := range []string{"", "?pageSize=100", "?pageSize=500", "?pageSize=1", "?pageSize=501",
		"?page_size=100&currency=USD", "?cursor=x", "?currency=EUR",
		"?startTimestamp=2020-01-01T00:00:00Z&endTimestamp=2091-01-01T00:00:00Z", "?startDate=2020-01-01",
		"?sortOrder=asc"} {
		get("usage-history" + q)
	}
	// Page by page to the end.
	cursor := ""
	for range 40 {
		a := get("usage-history?pageSize=300" + cursor)
		var page struct{ NextCursor string }
		if _ = json.Unmarshal(a.body, &page); page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
	for _, q := range []string{"", "?lookback=1d", "?lookback=90d", "?lookback=91d", "?lookback=0d", "?lookback=x",
		"?lookback=7d&startDate=2020-01-01", "?startDate=2020-01-01", "?startDate=2020-01-01&endDate=2020-01-05",
		"?startDate=2020-01-01&endDate=2021-01-05", "?start_date=2020-01-05&end_date=2020-01-01", "?format=csv"} {
		get("usage-analytics" + q)
	}
	for _, path := range []string{"balance", "usage", "usage-history", "usage-analytics"} {
		l.do(step{name: "billing " + path + " for a worker", method: "GET", path: "/billing/" + path, key: c.worker})
	}
}
