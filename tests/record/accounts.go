package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// paths are all endpoints, and some unknown ones.
var paths = strings.Fields(
	`/chat/completions /embeddings /image/generate /image/edit /image/multi-edit /image/upscale /images/upscale /image/background-remove /image/styles /images/generations /images/edits
	/models /models/traits /models/compatibility_mapping /models/chat-openai /api_keys /api_keys/generate_web3_key /api_keys/x /api_keys/rate_limits /api_keys/rate_limits/log /billing/balance /billing/usage /billing/usage-history
	/billing/usage-analytics /crypto/rpc/networks /crypto/rpc/ethereum-mainnet /nope /chat/completions/ /CHAT/completions /models/ //healthz //readyz //metrics // //api/v1 //api/v2/models //api/v1//models /models%2ftraits /../models`,
)

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
			l.post(path+" with "+h, path, "", `{"x":1}`, h)
		}
		for _, origin := range []string{"https://app.example.com", "https://other.example.com", "null",
			"http://localhost:3000"} {
			l.do(step{name: "preflight of " + path + " from " + origin, method: "OPTIONS", path: path,
				headers: []string{"Origin: " + origin, "Access-Control-Request-Method: POST",
					"Access-Control-Request-Headers: authorization, content-type, x-stainless-lang"}})
			l.get(path+" from "+origin, path, "", "Origin: "+origin)
		}
	}
	for i, raw := range lines("raw-heads", "worker", c.worker) {
		l.wire.closeConn()
		l.do(step{name: fmt.Sprint("raw ", i), raw: strings.ReplaceAll(raw, `\r\n`, "\r\n")})
		l.wire.closeConn()
	}
	l.chat("oversized", c.worker, "chat-openai", strings.Repeat("x", 2<<20), "")
	l.post("oversized calls", "/crypto/rpc/ethereum-mainnet", c.worker,
		`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["`+strings.Repeat("x", 2<<20)+`"]}`)
	l.post("oversized keys", "/api_keys", c.admin, `{"description":"`+strings.Repeat("x", 20<<10)+`"}`)
}

// catalog are the lists.
func (l *lab) catalog(c *customer) {
	for _, key := range []string{"", c.worker, c.admin} {
		for _, path := range []string{"/models", "/models/traits", "/models/compatibility_mapping"} {
			for _, t := range lines("catalog-types") {
				l.get("catalog "+path+t, path+t, key)
			}
		}
		for _, path := range lines("catalog-paths") {
			l.get("catalog "+path, path, key)
		}
		l.get("catalog, compressed", "/models?type=all", key, "Accept-Encoding: gzip, br")
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
	for _, body := range lines("key-bodies") {
		do("POST", "/api_keys", body)
	}
	for range 3 {
		l.chat("a key with a limit", fullSecret, "chat-openai", "[[sim tokens=3]] hello", `,"max_completion_tokens":5`)
	}
	for _, model := range []string{"chat-openai", "chat-plain", "embed-1"} {
		l.chat("a private key", private, model, "[[sim tokens=3]] hello", "")
	}
	l.get("models of a private key", "/models", private)
	l.get("a model of a private key", "/models/chat-plain", private)
	for _, q := range []string{"", "?page=1&limit=2", "?page=2&limit=2", "?page=0", "?page=x", "?limit=501", "?limit=",
		"?page=1&page=2", "?x=1"} {
		do("GET", "/api_keys"+q, "")
		do("GET", "/api_keys/rate_limits"+q, "")
		do("GET", "/api_keys/rate_limits/log"+q, "")
	}
	for i, id := range []string{full, "x", strings.ToUpper(full), c.workerID} {
		l.get(fmt.Sprint("keys: one of them ", i), "/api_keys/"+id, c.admin)
	}
	l.get("the limits of a key with a limit", "/api_keys/rate_limits", fullSecret)
	l.get("the keys for a worker", "/api_keys", c.worker)
	for _, f := range []struct{ query, body string }{{"", `{}`}, {"", ``}, {"?id=x", ``}, {"?id=" + full + "&id=x", ``},
		{"?id=" + full, `{"id":"x"}`}, {"", `{"id":"` + full + `","force":true}`}, {"?id=" + full, ``},
		{"?id=" + full, ``}} {
		do("DELETE", "/api_keys"+f.query, f.body)
	}
	l.chat("a key that is gone", fullSecret, "chat-free", "hello", "")
	l.get("another boss", "/billing/balance", boss)
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
		l.post("empty account "+f.path, f.path, c.worker, f.body)
		l.post("empty account, OpenAI's package "+f.path, f.path, c.worker, f.body, "X-Stainless-Lang: python")
	}
	l.cli("account", "credit", c.account, "0.00005", "--ref", "a little")
	for i := range 4 {
		l.chat(fmt.Sprint("a little money ", i), c.worker, "chat-openai", "[[sim tokens=3]] hello",
			`,"max_completion_tokens":4`)
		l.chat(fmt.Sprint("a little money, beyond what was asked ", i), c.worker, "chat-openai",
			"[[sim tokens=30 ignore_cap=1]] hello", `,"max_completion_tokens":4,"stream":true`)
	}
	l.get("the balance of a little", "/billing/balance", c.admin)
}

// diem are days' allowances.
func (l *lab) diem() {
	c := l.customer("daily", "")
	l.cli("account", "diem", "daily", "--daily", "0.1")
	for range 2 {
		l.chat("paid in DIEM", c.worker, "chat-openai", "[[sim tokens=9]] hello", "")
	}
	l.get("the balance in DIEM", "/billing/balance", c.admin)
	l.get("the usage in DIEM", "/billing/usage?currency=DIEM", c.admin)
	l.cli("account", "diem", "daily", "--daily", "0.01")
	l.cli("account", "diem", "daily", "--daily", "0")
}

// operator are the commands of one, beside the running server.
func (l *lab) operator(c *customer) {
	for _, command := range lines("operator", "worker", c.workerID) {
		l.cli(strings.Split(strings.ReplaceAll(command, `""`, ""), " ")...)
	}
}

// billing are the reports that customers get.
func (l *lab) billing(c *customer) {
	get := func(path string, headers ...string) *answer {
		return l.get("billing "+path[:min(len(path), 90)], "/billing/"+path, c.admin, headers...)
	}
	get("balance")
	for _, q := range lines("usage-queries") {
		get("usage" + q)
	}
	get("usage", "Accept: text/csv")
	get("usage?limit=300", "Accept-Encoding: gzip")
	for _, q := range lines("history-queries") {
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
	for _, q := range lines("analytics-queries") {
		get("usage-analytics" + q)
	}
	for _, path := range []string{"balance", "usage", "usage-history", "usage-analytics"} {
		l.get("billing "+path+" for a worker", "/billing/"+path, c.worker)
	}
}
