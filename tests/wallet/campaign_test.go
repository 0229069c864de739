package wallet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/chain"
	"farebox/bench/upstream/facilitator"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// The campaign: wallets pay while the facilitator, a node of each chain and the wallets
// themselves misbehave, and farebox is killed again and again. When all is quiet, every
// transfer that a chain holds is some account's credit, once, and nothing else is.

const (
	payersAtOnce = 24
	impatience   = 3 * time.Second
)

// campaign is one world under attack.
type campaign struct {
	*shop
	mu     sync.Mutex
	random *rand.Rand
	paid   []*signed
	client *http.Client
	forks  bool     // chains take payments back, which takes minutes to settle
	odd    []string // answers that may not be
}

func (c *campaign) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// lies that cost no more time than the campaign has. Hanging ones are rare.
func (c *campaign) lie(call string) chain.Lie {
	l := facilitator.Lies[c.draw(len(facilitator.Lies))]
	hangs := l == facilitator.Hangs || l == facilitator.HangsAfter || l == facilitator.Floods
	if c.draw(3) == 0 || hangs && c.draw(4) != 0 || call == "verify" && c.draw(3) != 0 {
		return ""
	}
	return l
}

// nodeFaults are of one node of each chain at a time, so that two are honest or slow.
func (c *campaign) nodeFaults() node.Faults {
	all := []node.Faults{
		{}, {Lie: chain.Invents}, {Lie: chain.Hides}, {Lie: chain.Inflates}, {Lie: chain.Diverts}, {Status: 503},
		{Truncate: true}, {Share: 0.5, Drop: true}, {Lag: int64(c.draw(40))}, {Hidden: "public"},
		{Delay: 200 * time.Millisecond}, {Trailing: true, Share: 0.5},
	}
	return all[c.draw(len(all))]
}

// pay is one wallet, which pays and perhaps asks again, as clients do.
func (c *campaign) pay() {
	p := chain.NewPayer()
	if c.draw(3) == 0 {
		p = chain.NewSolanaPayer()
	}
	payment := c.sign(p, int64(5*usd+c.draw(95*usd)))
	c.mu.Lock()
	c.paid = append(c.paid, payment)
	c.mu.Unlock()
	for range 1 + c.draw(3) {
		if !c.send(payment) {
			return
		}
		time.Sleep(time.Duration(c.draw(200)) * time.Millisecond)
	}
}

// send gives false once there is a final answer.
func (c *campaign) send(payment *signed) bool {
	req, err := http.NewRequest("POST", c.URL+topUp, nil)
	if err != nil {
		c.T.Error(err)
		return false
	}
	req.Header.Set("PAYMENT-SIGNATURE", payment.header())
	res, err := c.client.Do(req)
	if err != nil {
		return true // it was killed, or takes too long
	}
	defer func() { _ = res.Body.Close() }()
	var body struct {
		Error string
		Data  struct {
			WalletAddress  string
			AmountCredited json.Number
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		return true // it was killed while it answered
	}
	switch res.StatusCode {
	case 200:
		amount := fmt.Sprintf("%.6f", float64(payment.units)/usd)
		got, _ := body.Data.AmountCredited.Float64()
		if body.Data.WalletAddress != payment.payer.Address || fmt.Sprintf("%.6f", got) != amount {
			c.strange("%s paid %s and was answered %+v", payment.payer.Address, amount, body)
		}
		return false
	case 402, 409, 503, 504:
		return true
	}
	c.strange("%s was answered %d %+v", payment.payer.Address, res.StatusCode, body)
	return false
}

func (c *campaign) strange(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.odd) < 20 {
		c.odd = append(c.odd, fmt.Sprintf(format, args...))
	}
}

// reorganise takes a payment off its chain, sometimes for a while, before it is final.
func (c *campaign) reorganise() {
	if moves := c.evm.Moves(); c.forks && len(moves) > 0 {
		m := moves[len(moves)-1-c.draw(min(len(moves), 4))]
		if c.evm.Head()-m.Block < 6 && c.evm.Reorganise(m.Hash) && c.draw(2) == 0 {
			time.Sleep(time.Duration(c.draw(300)) * time.Millisecond)
			c.evm.Restore(m.Hash)
		}
	}
}

// round is one life of the process: so many payments, then a kill in their midst.
func (c *campaign) round(payments int) {
	var all sync.WaitGroup
	slots := make(chan struct{}, payersAtOnce)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range payments {
			slots <- struct{}{}
			all.Go(func() { c.pay(); <-slots })
		}
		all.Wait()
	}()
	kill := time.After(time.Duration(300+c.draw(1500)) * time.Millisecond)
	for tick := time.NewTicker(150 * time.Millisecond); ; {
		select {
		case <-tick.C:
			c.evmNode[0].Fault(c.nodeFaults())
			c.solanaNode[0].Fault(c.nodeFaults())
			c.reorganise()
		case <-kill:
			c.Kill()
			c.Start()
		case <-done:
			tick.Stop()
			return
		}
	}
}

// run makes so many payments, in rounds of so many, and checks the rules after them.
func runCampaign(t *testing.T, store string, payments, each int, forks bool) {
	t.Helper()
	s := openShopOn(t, store, options{network: ", final_depth: 30",
		facilitator: ", settle_timeout: 1s, verify_timeout: 1s", x402: "max_pending_per_wallet: 1000"})
	c := &campaign{shop: s, forks: forks, random: rig.Seeded(t)(1), client: &http.Client{Timeout: impatience,
		Transport: &http.Transport{MaxIdleConnsPerHost: payersAtOnce}}}
	s.facilitator.Draw(c.lie)
	for left := payments; left > 0; left -= each {
		c.round(min(left, each))
	}
	// Quiet: all services tell the truth, and signed but unused payments are over.
	s.facilitator.Always("")
	s.evmNode[0].Fault(node.Faults{})
	s.solanaNode[0].Fault(node.Faults{})
	s.evm.Skip(10 * time.Minute)
	s.solana.Skip(2 * chain.HashSlots)
	wait := time.Now().Add(6 * time.Minute)
	for ; !c.even(nil) && time.Now().Before(wait); time.Sleep(time.Second) {
	}
	if !c.even(t) {
		t.Errorf("the ledger does not match the chains")
	}
	for _, odd := range c.odd {
		t.Error(odd)
	}
	s.verified()
	t.Logf("%d payments, %d wallets of them on a chain; the facilitator was asked to settle %d times", len(c.paid),
		len(c.onChain()), s.facilitator.Calls("settle"))
}

// onChain is each wallet's payments on the chains.
func (c *campaign) onChain() map[string]int64 {
	held := map[string]int64{}
	for _, m := range c.evm.Moves() {
		if strings.EqualFold(m.To, payEVM) {
			held[m.From] += m.Value
		}
	}
	to := chain.TokenAccount(paySVM, chain.SolanaUSDC)
	for _, l := range c.solana.Transfers() {
		if l.To == to {
			held[l.Payer] += l.Units
		}
	}
	return held
}

// even reports whether each wallet has exactly its payments on the chains; with t it
// reports differences.
func (c *campaign) even(t *testing.T) bool {
	c.T.Helper()
	held, accounts, right := c.onChain(), c.Accounts(), true
	differs := func(format string, args ...any) {
		right = false
		if t != nil {
			t.Errorf(format, args...)
		}
	}
	for wallet, units := range held {
		if a := accounts[wallet]; int64(a.USD) != units*1000 {
			differs("%s paid %d units and has %s USD", wallet, units, a.USD)
		}
	}
	for name, a := range accounts {
		if held[name] == 0 && a.USD != 0 {
			differs("%s has %s USD and no chain holds a payment", name, a.USD)
		}
	}
	return right
}

// A few payments among lies, with a kill in their midst, on both engines.
func TestLiesAndKillsCreditNothingWrong(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) { runCampaign(t, store, 40, 20, false) })
}

// A thousand of them on each engine.
func TestLongLiesAndKillsCreditNothingWrong(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) { runCampaign(t, store, servers.Campaign(250), 25, true) })
}
