package rpc

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/node"
)

// The limit of an account's credits in 24 hours: refusals say so, and have none of the
// minute's headers; credits that were not charged can be used again.
func TestCryptoDailyCredits(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "      head_every: 0s\n", "", "rpc:\n  daily_credits: 100\n")
	c.expect(threeCalls, threeAnswers, 60)
	refused := func(left string) {
		t.Helper()
		status, header, answer := c.rpc(threeCalls)
		var body struct{ Error, Code, CustomMessage string }
		if err := json.Unmarshal([]byte(answer), &body); err != nil || status != 429 ||
			body.Code != "RATE_LIMIT_EXCEEDED" ||
			body.Error != body.CustomMessage || !strings.Contains(body.Error,
			"at most 100 credits in 24 hours, "+left+" are left and this request may cost 60") {
			t.Errorf("more than is left gives %d %s", status, answer)
		}
		if after, err := strconv.Atoi(header.Get("Retry-After")); err != nil || after < 23*3600 || after > 25*3600 {
			t.Errorf("Retry-After is %q", header.Get("Retry-After"))
		}
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
			"X-Svc-RPC-Credits"} {
			if header.Get(name) != "" {
				t.Errorf("the refusal has the header %s: %s", name, header.Get(name))
			}
		}
	}
	refused("40")
	if _, _, log := c.Get("/api_keys/rate_limits/log", c.Key("rich", "--type", "ADMIN")); !strings.Contains(string(log),
		`"modelId":"crypto-rpc","rateLimitTier":"paid","rateLimitType":"RPD"`) {
		t.Errorf("the log of refusals is %s", log)
	}
	// Errors of the node cost 5 of the 20 that were held, no answer nothing.
	c.expect(`{"jsonrpc":"2.0","id":7,"method":"eth_estimateGas","params":["revert"]}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":3,"message":"execution reverted: asked to"}}`, 5)
	c.nodes[0].Fault(node.Faults{Status: 500})
	if status, _, answer := c.rpc(chainID); status != 500 {
		t.Errorf("a broken node gives %d %s", status, answer)
	}
	c.nodes[0].Fault(node.Faults{})
	refused("35")
	c.expect(chainID, chainAnswer, 20)
	if status, _, answer := c.rpc(chainID); status != 429 {
		t.Errorf("with 15 left a call of 20 gives %d %s", status, answer)
	}
	// Another account has a day of its own, and a replay costs none.
	c.NewAccount("other", "1")
	c.key = c.Key("other")
	for range 3 {
		if _, answer := c.must("the-day", threeCalls, 200); answer != threeAnswers {
			t.Errorf("another account's request gives %s", answer)
		}
	}
	c.spent(85)
}

// A call that waits for its node counts with its highest cost.
func TestCryptoDailyCreditsUnderWay(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "      head_every: 0s\n      timeouts: { read: 50s }\n", "",
		"rpc:\n  daily_credits: 30\n")
	c.nodes[0].Fault(node.Faults{Delay: time.Second})
	statuses := make(chan int, 5)
	for range cap(statuses) {
		go func() {
			res := c.Open("POST", "/crypto/rpc/ethereum-sepolia", c.key, chainID)
			_ = res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	answered := 0
	for range cap(statuses) {
		switch status := <-statuses; status {
		case 200:
			answered++
		case 429:
		default:
			t.Errorf("a request is answered with %d", status)
		}
	}
	if answered != 1 {
		t.Errorf("%d calls of 20 credits were answered under a cap of 30", answered)
	}
	c.spent(20)
}
