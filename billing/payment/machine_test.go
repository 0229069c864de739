package payment

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
	"farebox/config/onchain"
)

const aWallet = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"

// stage is a machine on a ledger, before a world.
type stage struct {
	*Machine
	t     *testing.T
	l     *billing.Ledger
	world *world
}

func newStage(t *testing.T, adjust ...func(*setup)) *stage {
	t.Helper()
	s := &stage{t: t, l: ledgerOn(t, "", ""), world: newWorld(1)}
	s.world.always = "fine"
	s.Machine = s.machine(s.l, adjust...)
	return s
}

// machine returns a machine that does not poll payments until Begin.
func (s *stage) machine(l *billing.Ledger, adjust ...func(*setup)) *Machine {
	o := setup{Options{Store: l.Payments(), Node: l.NodeNo(), Log: zerolog.Nop()}, quickTerms, s.world}
	o.Terms.SettleTimeout, o.Terms.VerifyTimeout = 20*time.Millisecond, 20*time.Millisecond
	for _, a := range adjust {
		a(&o)
	}
	m := New(o.Options)
	s.configure(m, o.Terms, o.Client)
	m.t = quick
	m.t.goneFor, m.t.margin, m.t.ask = 5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond
	s.t.Cleanup(m.Close)
	return m
}

// setup holds the options that a test may change.
type setup struct {
	Options
	Terms  Terms
	Client ChainClient
}

func (s *stage) configure(m *Machine, t Terms, c ChainClient) {
	s.t.Helper()
	if err := m.Configure(t, c); err != nil {
		s.t.Fatal(err)
	}
}

// ask replaces the client, as a reload does.
func (s *stage) ask(c ChainClient) { s.configure(s.Machine, s.settings.Load().Terms, c) }

func (s *stage) begin() {
	s.t.Helper()
	if err := s.Begin(); err != nil {
		s.t.Fatal(err)
	}
}

func payment(id string) *onchain.Payment {
	return &onchain.Payment{ID: id, Same: [32]byte{1}, Network: "eip155:8453", Asset: "0xa", Wallet: aWallet, Units: 5_000_000,
		Amount: 5_000_000_000}
}

// submit submits a payment and expects an ending.
func (s *stage) submit(p *onchain.Payment, want Ending) Outcome {
	s.t.Helper()
	out := s.Submit(context.Background(), p, fair.Owner{})
	if out.Ending != want {
		s.t.Fatalf("%s ended %s with %+v, expected %s", p.ID, EndingNames[out.Ending], out, EndingNames[want])
	}
	return out
}

func (s *stage) row(id string) *store.PaymentRow {
	s.t.Helper()
	row, err := s.l.Payments().Payment(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

// becomes waits until a payment is in a state.
func (s *stage) becomes(id string, want store.PaymentState) *store.PaymentRow {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		row := s.row(id)
		if row.State == want {
			return row
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s stays %+v, expected %s", id, row, want)
		}
	}
}

// has checks the wallet's USD, and that the books add up.
func (s *stage) has(want money.Nano) {
	s.t.Helper()
	a, err := s.l.Accounts().WalletState(aWallet)
	if err != nil {
		s.t.Fatal(err)
	}
	if b, err := s.l.Reports(a).Balance(); err != nil || b.USD != want {
		s.t.Errorf("the wallet has %s, expected %s (%v)", b.USD, want, err)
	}
	audits(s.t, s.l)
}

// "Somebody else settled my authorization before you heard of it, and you told me to sign a new
// one": a payment on the chain is credited once, however often and wherever it is sent.
func TestPaymentThatSomebodyElseMadeIsCreditedOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.world.mu.Lock()
	s.world.pay("pay_a", s.world.coin("pay_a"))
	s.world.coin("pay_b").spent = true
	s.world.mu.Unlock()
	machines := []*Machine{s.Machine, s.machine(s.l)}
	endings := make(chan Ending, 16)
	for i := range cap(endings) {
		go func() {
			endings <- machines[i%2].Submit(context.Background(), payment("pay_a"), fair.Owner{}).Ending
		}()
	}
	for range cap(endings) {
		if e := <-endings; e != Credited && e != InProgress {
			t.Errorf("it ended %s", EndingNames[e])
		}
	}
	s.submit(payment("pay_a"), Credited)
	if out := s.submit(payment("pay_b"), Refused); out.Refusal.Reason != onchain.ReasonNonceUsed {
		t.Errorf("a nonce that was used for something else: %+v", out.Refusal)
	}
	if _, err := s.l.Payments().Payment("pay_b"); err == nil {
		t.Error("an unpaid payment has a row")
	}
	if s.world.settles != 0 {
		t.Errorf("facilitators were asked %d times", s.world.settles)
	}
	s.has(5_000_000_000)
}

// "I sent my payment twice because the answer was slow, and the second time it said that
// somebody had stolen it": a repeat gets the first answer, for a day; another payment
// with its nonce does not.
func TestRepeatOfACreditedPaymentGetsItsFirstAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.submit(payment("pay_a"), Credited)
	if first.Again || first.Balance != 5_000_000_000 || first.Transaction == "" {
		t.Errorf("the first answer is %+v", first)
	}
	s.submit(payment("pay_b"), Credited)
	again := s.submit(payment("pay_a"), Credited)
	if first.Again = true; again != first {
		t.Errorf("the second answer is %+v, the first was %+v", again, first)
	}
	other := payment("pay_a")
	other.Same[5] = 9
	if out := s.submit(other, Refused); out.Refusal != (onchain.Refusal{Code: onchain.CodeVerification, Reason: onchain.ReasonNonceUsed}) {
		t.Errorf("another payment is answered with %+v", out.Refusal)
	}
	s.t.Log("a day later")
	s.Machine.t.repeatFor = 0
	if out := s.submit(payment("pay_a"), Refused); out.Refusal.Reason != onchain.ReasonNonceUsed {
		t.Errorf("a day later: %+v", out.Refusal)
	}
	if s.world.settles != 2 {
		t.Errorf("facilitators were asked %d times", s.world.settles)
	}
	s.has(10_000_000_000)
}

// Faults of facilitators and the payer's answer: 402 only if the facilitator refused the
// first attempt and the chain lacks the payment. Otherwise the outcome is unknown, and
// found later.
func TestFacilitatorsThatDoNotSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault string
		first Ending
		last  store.PaymentState
	}{
		{"fine", Credited, store.PaymentFinal},
		{"lost answer", Credited, store.PaymentFinal},
		{"error after settling", Credited, store.PaymentFinal},
		{"refuses what it settled", Credited, store.PaymentFinal},
		{"twice", Credited, store.PaymentFinal},
		{"refuses", Refused, store.PaymentDead},
		{"late and refused", Refused, store.PaymentFinal},
		{"lies", Unknown, store.PaymentDead},
		{"never asked", Unknown, store.PaymentDead},
		{"another amount", Refused, store.PaymentDead},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.world.always = c.fault
			out := s.submit(payment("pay_a"), c.first)
			if c.first == Refused && c.fault != "another amount" && out.Refusal.Code != onchain.CodeSettlement {
				t.Errorf("the refusal is %+v", out.Refusal)
			}
			s.begin()
			row := s.becomes("pay_a", c.last)
			if len(row.Order) != 0 || row.EndedUs == 0 {
				t.Errorf("it ended as %+v", row)
			}
			if c.last == store.PaymentFinal {
				s.has(5_000_000_000)
			}
			stats := s.Stats()
			if c.fault == "lies" && stats.Contradictions == 0 {
				t.Errorf("a lie is not counted: %+v", stats)
			}
		})
	}
}

// "It said no, I signed another one, and then both were taken": a refused payment may
// succeed when it is sent again. A payment with an unknown outcome is not refused at its
// second attempt.
func TestRefusalCountsOnlyTheFirstTime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.world.always = "never asked"
	s.submit(payment("pay_a"), Unknown)
	s.world.always = "refuses"
	if out := s.submit(payment("pay_a"), Unknown); out.Refusal != (onchain.Refusal{}) {
		t.Errorf("a second refusal: %+v", out)
	}
	s.world.always = "fine"
	s.submit(payment("pay_a"), Credited)
	s.has(5_000_000_000)
}

// "It said no, I signed another one, and a second later the first was taken, too": a
// refusal is believed when the chain has said for a moment that the payment is not made.
func TestRefusalWaitsForTheChain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Machine.t.doubtFor, s.Machine.t.findFor = 5*time.Second, 10*time.Second
	s.world.always = "late and refused"
	s.submit(payment("pay_a"), Credited)
	s.has(5_000_000_000)
	s.Machine.t.doubtFor = 10 * time.Millisecond
	s.world.always = "refuses"
	if out := s.submit(payment("pay_b"), Refused); out.Refusal.Reason != "insufficient_funds" {
		t.Errorf("the refusal is %+v", out.Refusal)
	}
}

// "The facilitator was down, and my payment was lost": nothing was sent, it says so, and
// the same payment goes through later.
func TestFacilitatorThatCannotBeAskedIsSentNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.world.verifies = "lost"
	s.submit(payment("pay_a"), NotSent)
	if row := s.row("pay_a"); row.State != store.PaymentSubmitted || row.Tries != 0 || s.world.settles != 0 {
		t.Errorf("it is %+v, settled %d times", row, s.world.settles)
	}
	s.world.verifies = "no"
	if out := s.submit(payment("pay_a"), Refused); out.Refusal != (onchain.Refusal{Code: onchain.CodeVerification, Reason: "insufficient_funds"}) {
		t.Errorf("the refusal is %+v", out.Refusal)
	}
	s.world.verifies = ""
	s.submit(payment("pay_a"), Credited)
	s.has(5_000_000_000)
}

// "I hung up, and my money was gone": a started payment goes on without its client.
func TestClientThatHangsUpIsCredited(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	slow := &slowClient{ChainClient: s.world, wait: make(chan struct{})}
	s.ask(slow)
	ctx, stop := context.WithCancel(context.Background())
	answer := make(chan Outcome)
	go func() { answer <- s.Submit(ctx, payment("pay_a"), fair.Owner{}) }()
	slow.arrived(t)
	stop()
	if out := <-answer; out.Ending != Unknown {
		t.Errorf("it ended with %+v", out)
	}
	s.submit(payment("pay_a"), InProgress)
	close(slow.wait)
	s.becomes("pay_a", store.PaymentCredited)
	s.has(5_000_000_000)
}

// slowClient settles when the test allows it.
type slowClient struct {
	ChainClient
	wait chan struct{}
	mu   sync.Mutex
	n    int
}

func (c *slowClient) Settle(ctx context.Context, p *onchain.Payment) (onchain.Reply, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	<-c.wait
	return c.ChainClient.Settle(ctx, p)
}

func (c *slowClient) arrived(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		n := c.n
		c.mu.Unlock()
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing was settled")
}

// "The block with my payment was dropped, and I kept the credit", and it came back in
// another block.
func TestCreditFollowsTheChainBackAndForth(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.submit(payment("pay_a"), Credited)
	s.world.mu.Lock()
	c := s.world.coin("pay_a")
	c.at = 0
	s.world.mu.Unlock()
	s.begin()
	row := s.becomes("pay_a", store.PaymentSubmitted)
	if row.Epoch != 2 || row.CreditedUs != 0 {
		t.Errorf("it is %+v", row)
	}
	s.has(0)
	s.world.mu.Lock()
	c.expires = 1 << 30
	c.pending = s.world.height + 1
	s.world.mu.Unlock()
	s.becomes("pay_a", store.PaymentFinal)
	s.has(5_000_000_000)
	if stats := s.Stats(); stats.Reversed != 1 || stats.Credited != 2 {
		t.Errorf("the figures are %+v", stats)
	}
}

// "Somebody sent payments without end, and nobody else could pay": open payments are
// bounded by wallet and in total, and refused ones are not stored.
func TestPaymentsWithoutAnOutcomeAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *setup) { o.Terms.MaxPending, o.Terms.MaxPendingPerWallet = 40, 2 })
	s.world.always = "never asked"
	s.Machine.t.findFor = time.Millisecond
	s.submit(payment("pay_a"), Unknown)
	s.submit(payment("pay_b"), Unknown)
	s.submit(payment("pay_c"), Full)
	s.world.always = "fine"
	s.submit(payment("pay_a"), Credited) // a payment that has its place already goes on
	s.world.always = "never asked"
	another := func(i int) *onchain.Payment {
		p := payment(fmt.Sprint("pay_of_", i))
		p.Wallet = fmt.Sprintf("0x%040d", i)
		return p
	}
	greedy, full := fair.Unpaid(netip.MustParseAddr("192.0.2.1")), 0
	for i := range 40 {
		if s.Submit(t.Context(), another(i), greedy).Ending == Full {
			full++
		}
	}
	if full < 8 || full > 20 {
		t.Errorf("%d of 40 payments from one address found no place, expected a quarter or so", full)
	}
	for i, o := range []fair.Owner{fair.Unpaid(netip.MustParseAddr("192.0.2.2")), fair.Paid(7)} {
		if out := s.Submit(t.Context(), another(100+i), o); out.Ending != Unknown {
			t.Errorf("another owner's payment ended %s", EndingNames[out.Ending])
		}
	}
}

// "A wallet that says yes to us and no to its token paid forty times, and then nobody
// could": refused payments take no place from payments with an open outcome.
func TestRefusedPaymentsTakeNoPlaceFromOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *setup) { o.Terms.MaxPending, o.Terms.MaxPendingPerWallet = 8, 8 })
	s.world.verifies = "no"
	same := fair.Unpaid(netip.MustParseAddr("192.0.2.1"))
	for i := range 6 {
		if out := s.Submit(t.Context(), payment(fmt.Sprint("pay_", i)), same); out.Ending != Refused {
			t.Fatalf("payment %d ended %s", i, EndingNames[out.Ending])
		}
	}
	s.world.verifies, s.world.always = "", "fine"
	for i, from := range []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"} {
		p := payment(fmt.Sprint("pay_honest_", i))
		p.Wallet = fmt.Sprintf("0x%040d", i)
		if out := s.Submit(t.Context(), p, fair.Unpaid(netip.MustParseAddr(from))); out.Ending != Credited {
			t.Errorf("an honest payment ended %s", EndingNames[out.Ending])
		}
	}
}

// Many payments with unknown outcomes cost a bounded number of polls a second, and no
// memory.
func TestManyPendingPaymentsAreLookedAtInTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.l.Payments()
	const many = 600
	for i := range many {
		row := s.rowOf(payment(fmt.Sprint("pay_", i)), []byte("order of pay_"+fmt.Sprint(i)))
		row.LeaseUs = 0
		if _, err := p.AddPayment(row, 2*many, many+1); err != nil {
			t.Fatal(err)
		}
		s.world.coin(row.ID).expires = 1 << 30
	}
	s.Machine.t.watchEvery, s.Machine.t.pollMin, s.Machine.t.pollMax = 50*time.Millisecond, time.Hour, time.Hour
	began := time.Now()
	s.begin()
	for time.Sleep(700 * time.Millisecond); s.Stats().Polls < pollsPerSecond && time.Since(began) < time.Minute; {
		time.Sleep(50 * time.Millisecond)
	}
	rounds := int64(time.Since(began)/(25*time.Millisecond)) + 2
	polls := s.Stats().Polls
	if polls < pollsPerSecond || polls > rounds*pollsPerSecond {
		t.Errorf("%d polls in %s", polls, time.Since(began))
	}
	due, err := p.DuePayments(p.NowUs(), many)
	if err != nil || int64(len(due)) > many-polls+pollsAtOnce {
		t.Errorf("%d are due after %d polls (%v)", len(due), polls, err)
	}
}

// A client that panics, or whose answer is unreadable, decides nothing.
func TestClientThatFailsDecidesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.ask(&brokenClient{s.world})
	s.submit(payment("pay_a"), Unknown)
	s.ask(s.world)
	if stats := s.Stats(); stats.Panics != 1 {
		t.Errorf("the figures are %+v", stats)
	}
	if row := s.row("pay_a"); row.State != store.PaymentSubmitted {
		t.Errorf("it is %+v", row)
	}
	s.begin()
	s.becomes("pay_a", store.PaymentFinal)
}

type brokenClient struct{ ChainClient }

func (c *brokenClient) Settle(ctx context.Context, p *onchain.Payment) (onchain.Reply, error) {
	_, _ = c.ChainClient.Settle(ctx, p)
	panic("a bug")
}
