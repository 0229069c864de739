package payment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"farebox/config/onchain"
)

// world is a chain, and facilitators with all their faults.
type world struct {
	mu       sync.Mutex
	random   *rand.Rand
	height   int
	coins    map[string]*coin
	calm     bool // nothing goes wrong any more
	settles  int
	faults   map[string]int // that happened, by name
	always   string         // the fault of every settlement; empty: any
	verifies string         // of every verification
	lags     int            // number of polls that miss a payment on the chain
	reorgs   bool
}

// coin is the state of a payment on the chain.
type coin struct {
	asked   int // number of settlements asked for
	at      int // height at which it was paid; 0: it was not
	txn     string
	spent   bool // for something else
	pending int  // height at which it will be paid, by itself
	expires int
	seen    int
}

const (
	settledDepth = 1
	finalDepth   = 6
	coinLife     = 30 // blocks
)

func newWorld(seed uint64) *world {
	return &world{random: rand.New(rand.NewPCG(seed, 7)), height: 10, coins: map[string]*coin{},
		faults: map[string]int{}}
}

func (w *world) coin(id string) *coin {
	c := w.coins[id]
	if c == nil {
		c = &coin{expires: w.height + coinLife}
		w.coins[id] = c
	}
	return c
}

// tick makes a block. Due payments enter it, and payments in recent blocks may get lost.
func (w *world) tick() {
	w.height++
	for id, c := range w.coins {
		switch {
		case c.pending != 0 && w.height >= c.pending:
			if c.pending = 0; c.at == 0 && !c.spent && w.height < c.expires {
				w.pay(id, c)
			}
		case w.reorgs && !w.calm && c.at != 0 && w.height-c.at < finalDepth && w.random.IntN(20) == 0:
			w.faults["reorg"]++
			c.at = 0
			if w.random.IntN(2) == 0 {
				c.pending = w.height + 1 + w.random.IntN(30)
			}
		}
	}
}

func (w *world) pay(id string, c *coin) {
	c.at, c.seen = w.height, 0
	c.txn = fmt.Sprintf("0x%s-%d", id, w.height)
}

var errLost = errors.New("the answer was lost")

func (w *world) Prepare(_ context.Context, p *onchain.Payment) (order []byte, no *onchain.Refusal, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	if !w.calm && w.always == "" && w.random.IntN(20) == 0 {
		return nil, nil, errLost
	}
	c := w.coin(p.ID)
	switch {
	case c.at != 0: // another party submitted it
		return []byte("order of " + p.ID), &onchain.Refusal{Code: onchain.CodeVerification, Reason: onchain.ReasonNonceUsed}, nil
	case c.spent:
		return nil, &onchain.Refusal{Code: onchain.CodeVerification, Reason: onchain.ReasonNonceUsed}, nil
	}
	return []byte("order of " + p.ID), nil, nil
}

func (w *world) Verify(_ context.Context, p *onchain.Payment) (onchain.Reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	what := w.verifies
	if what == "" && !w.calm && w.always == "" {
		what = []string{"lost", "no", "unclear", "", "", "", "", "", "", "", "", ""}[w.random.IntN(12)]
	}
	if c := w.coin(p.ID); what != "" && w.verifies == "" && w.random.IntN(3) == 0 && c.at == 0 {
		c.pending = w.height + 1 + w.random.IntN(20) // it was only asked to verify, and pays
	}
	switch what {
	case "lost":
		return onchain.Reply{}, errLost
	case "no":
		return onchain.Reply{Reason: "insufficient_funds"}, nil
	case "unclear":
		return onchain.Reply{Unclear: true}, nil
	}
	return onchain.Reply{OK: true}, nil
}

// settlings are the behaviours of facilitators.
var settlings = []string{"fine", "fine", "lost answer", "hang", "error after settling", "refuses what it settled",
	"refuses", "lies", "pending", "never asked", "another amount", "twice", "late and refused"}

func (w *world) Settle(ctx context.Context, p *onchain.Payment) (onchain.Reply, error) {
	w.mu.Lock()
	w.tick()
	w.settles++
	c := w.coin(p.ID)
	c.asked++
	what := w.always
	if what == "" {
		what = settlings[w.random.IntN(len(settlings))]
	}
	if w.calm {
		what = "fine"
	}
	w.faults[what]++
	can := c.at == 0 && !c.spent && w.height < c.expires
	pays := func() {
		if can {
			w.pay(p.ID, c)
		}
	}
	wait := false
	reply, err := onchain.Reply{}, error(nil)
	switch what {
	case "fine", "twice":
		if pays(); what == "twice" { // the second of them fails on the chain
			can = false
			pays()
		}
		reply = onchain.Reply{OK: can || what == "twice", Reason: "transaction_failed", Transaction: c.txn}
	case "lost answer":
		pays()
		err = errLost
	case "hang":
		if w.random.IntN(2) == 0 {
			pays()
		}
		wait, err = true, errLost
	case "error after settling":
		pays()
		reply = onchain.Reply{Unclear: true, Reason: "unexpected_settle_error"}
	case "refuses what it settled":
		pays()
		reply = onchain.Reply{Reason: "invalid_transaction_state"}
	case "refuses":
		reply = onchain.Reply{Reason: "insufficient_funds"}
	case "lies":
		reply = onchain.Reply{OK: true, Transaction: "0xlie"}
	case "pending":
		if can {
			c.pending = w.height + 1 + w.random.IntN(12)
		}
		reply = onchain.Reply{Unclear: true, Reason: "settlement_pending"}
	case "never asked":
		err = errLost
	case "another amount":
		if can {
			c.spent = true
		}
		reply = onchain.Reply{OK: true, Transaction: "0xother"}
	case "late and refused":
		if can {
			c.pending = w.height + 1 + w.random.IntN(20)
		}
		reply = onchain.Reply{Reason: "refused"}
	}
	w.mu.Unlock()
	if wait {
		<-ctx.Done()
	}
	return reply, err
}

func (w *world) Find(ctx context.Context, p *onchain.Payment, _ string) (onchain.Result, error) {
	w.mu.Lock()
	w.tick()
	roll := w.random.IntN(40)
	if w.calm || w.always != "" {
		roll = 40
	}
	f := w.finding(p.ID)
	w.mu.Unlock()
	switch roll {
	case 0:
		return onchain.Result{}, fmt.Errorf("block 7: %w", onchain.ErrDisagree)
	case 1:
		return onchain.Result{}, errLost
	case 2:
		<-ctx.Done()
		return onchain.Result{}, ctx.Err()
	}
	if string(p.Order) != "order of "+p.ID {
		return onchain.Result{}, fmt.Errorf("the order is %q", p.Order)
	}
	return f, nil
}

// finding returns the true state. The caller has mu.
func (w *world) finding(id string) onchain.Result {
	c := w.coin(id)
	depth := w.height - c.at
	switch {
	case c.at != 0 && c.seen < w.lags:
		c.seen++
		return onchain.Result{State: onchain.Open}
	case c.at != 0:
		return onchain.Result{State: onchain.Paid, Transaction: c.txn, Settled: depth >= settledDepth, Final: depth >= finalDepth}
	case c.spent:
		return onchain.Result{State: onchain.Spent, Reason: "nonce_already_used"}
	case w.height >= c.expires+finalDepth:
		return onchain.Result{State: onchain.Over, Reason: "authorization_expired"}
	}
	return onchain.Result{State: onchain.Open}
}

// settle ends all faults.
func (w *world) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

// quick is the timing of tests.
var quick = timing{
	ask: 8 * time.Millisecond, margin: 10 * time.Millisecond,
	findFor: 6 * time.Millisecond, findEvery: 500 * time.Microsecond, findMost: 2 * time.Millisecond, doubtFor: time.Millisecond,
	watchEvery: time.Millisecond, tallyEvery: time.Hour,
	pollMin: 300 * time.Microsecond, pollMax: 2 * time.Millisecond,
	finalEvery: time.Millisecond, goneFor: 2 * time.Millisecond, repeatFor: time.Hour,
}

var quickTerms = Terms{MaxPending: 1000, MaxPendingPerWallet: 1000, VerifyTimeout: 5 * time.Millisecond,
	SettleTimeout: 5 * time.Millisecond}
