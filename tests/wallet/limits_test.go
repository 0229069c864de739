package wallet

import (
	"testing"

	"farebox/bench/upstream/chain"
)

// Ten top-ups a minute of an address, thirty balances and twenty lists of a wallet.
func TestRequestsOfWalletsAreLimited(t *testing.T) {
	t.Parallel()
	s := openShop(t, options{x402: "top_up_per_ip: 10\nbalance_per_wallet: 30\ntransactions_per_wallet: 20"})
	p := s.customer(chain.NewPayer(), 5*usd)
	count := func(most int, ask func() reply) (passed int) {
		for range most + 3 {
			switch r := ask(); {
			case r.status == 429 && r.header.Get("Retry-After") != "":
			case r.status == 429:
				t.Errorf("answered %s without a time", r)
			default:
				passed++
			}
		}
		return passed
	}
	// A limit of so many a minute gives one back each few seconds.
	if n := count(10, func() reply { return s.tell("POST", topUp, "") }); n < 9 || n > 10 {
		t.Errorf("%d top-ups passed beside the first", n)
	}
	if n := count(30, func() reply { return s.balance(p) }); n < 30 || n > 32 {
		t.Errorf("%d balances passed", n)
	}
	if n := count(20, func() reply { return s.transactions(p, "") }); n < 20 || n > 21 {
		t.Errorf("%d lists passed", n)
	}
	if r := s.spend(p, ""); r.status != 200 {
		t.Errorf("a chat afterwards is answered %s", r)
	}
}
