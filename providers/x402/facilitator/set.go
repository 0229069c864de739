package facilitator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"farebox/config"
	"farebox/config/onchain"
)

// maxRemembered bounds the number of payments whose verifier is remembered.
const maxRemembered = 4096

// Set is all facilitators of a config, in its order. Safe for concurrent use.
type Set struct {
	list      []*Client
	simulated bool // the config says that simulated ones are wanted

	mu       sync.Mutex
	verified map[string]*Client // by payment: the client to settle it first
	order    []string           // of verified, oldest first
}

// NewSet is for a checked config. Facilitators that have not changed go on from
// before, which may be nil. Start asks for their support.
func NewSet(c *config.X402, before *Set) (*Set, error) {
	s := &Set{simulated: c.Simulated, verified: map[string]*Client{}}
	for i := range c.Facilitators {
		f := &c.Facilitators[i]
		if old := before.like(f); old != nil {
			s.list = append(s.list, old)
			continue
		}
		made, err := newClient(f)
		if err != nil {
			return nil, err
		}
		s.list = append(s.list, made)
	}
	return s, nil
}

func (s *Set) like(f *config.X402Facilitator) *Client {
	if s == nil {
		return nil
	}
	for _, c := range s.list {
		if c.like(f) {
			return c
		}
	}
	return nil
}

// Start asks facilitators in the background for their support.
func (s *Set) Start() {
	for _, c := range s.list {
		c.start()
	}
}

// Close ends the clients that next, which may be nil, does not take over, and waits for
// them.
func (s *Set) Close(next *Set) {
	for _, c := range s.list {
		if next == nil || !slices.Contains(next.list, c) {
			c.stop()
		}
	}
}

// State is the state of a facilitator.
type State struct {
	Name  string
	Known bool   // its support is known
	Err   string // of the last question for that; empty: it was answered
}

// States are those of all.
func (s *Set) States() (list []State) {
	for _, c := range s.list {
		one := State{Name: c.Name, Known: c.known.Load() != nil}
		if text := c.failed.Load(); text != nil {
			one.Err = *text
		}
		list = append(list, one)
	}
	return list
}

// Offer is x402.FeePayers: the account of the first facilitator that names one.
func (s *Set) Offer(network string) string {
	for _, c := range s.list {
		if k := c.known.Load(); k != nil && s.may(c, network) && s.real(k) && k.networks[network] != "" {
			return k.networks[network]
		}
	}
	return ""
}

// Takes says whether a facilitator still pays with an account. An error says that it is
// not known: some did not answer, and the others do not pay with it.
func (s *Set) Takes(ctx context.Context, network, account string) (bool, error) {
	var why failures
	unknown := false
	for _, c := range s.list {
		if !s.may(c, network) {
			continue
		}
		k, err := c.support(ctx)
		switch {
		case err != nil:
			unknown = true
			why.add(c, err)
		case s.real(k) && k.takes(network, account):
			return true, nil
		}
	}
	if unknown {
		return false, why.error("name the fee payer of")
	}
	return false, nil
}

// may says that the operator uses a facilitator for a network.
func (s *Set) may(c *Client, network string) bool {
	return len(c.config.Networks) == 0 || slices.Contains(c.config.Networks, network)
}

// real says that a facilitator is not simulated, or may be.
func (s *Set) real(k *support) bool { return s.simulated || !k.simulated }

var errSimulated = errors.New("it says that it is simulated; expected another one, or x402.simulated: true")

// Question is a payment that facilitators are asked about.
type Question struct {
	ID       string // of the payment
	Network  string
	FeePayer string // on Solana
	Body     []byte
}

// usable says why a facilitator cannot be asked about a payment; nil: it can.
func (s *Set) usable(ctx context.Context, c *Client, q *Question) error {
	k, err := c.support(ctx)
	if err != nil {
		return err
	}
	if _, ok := k.networks[q.Network]; !ok {
		return errors.New("it does not support the network")
	}
	if !s.real(k) {
		return errSimulated
	}
	if q.FeePayer != "" && !k.takes(q.Network, q.FeePayer) {
		return errors.New("it does not pay with the account of this payment")
	}
	return nil
}

// Verify asks the first facilitator that answers.
func (s *Set) Verify(ctx context.Context, q *Question) (onchain.Reply, error) {
	var why failures
	var unclear *onchain.Reply
	for _, c := range s.asked(q) {
		if err := s.usable(ctx, c, q); err != nil {
			why.add(c, err)
			continue
		}
		r, err := c.Verify(ctx, q.Body)
		switch {
		case err != nil:
			why.add(c, err)
		case r.Unclear:
			unclear = &r
		default:
			s.remember(q.ID, c)
			return r, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if unclear != nil {
		return *unclear, nil
	}
	return onchain.Reply{}, why.error("verify")
}

// Settle asks the facilitator that verified the payment, else the first. Another one is
// asked only while no facilitator can have it.
func (s *Set) Settle(ctx context.Context, q *Question) (onchain.Reply, error) {
	var why failures
	for _, c := range s.asked(q) {
		if err := s.usable(ctx, c, q); err != nil {
			why.add(c, err)
			continue
		}
		r, sent, err := c.Settle(ctx, q.Body)
		if err == nil {
			return r, nil
		}
		why.add(c, err)
		if sent || ctx.Err() != nil {
			return onchain.Reply{Unclear: true}, why.error("settle")
		}
	}
	return onchain.Reply{}, why.error("settle")
}

// Ask asks every facilitator anew for its support, and says by name why it cannot be used
// for a network; nil: it can.
func (s *Set) Ask(ctx context.Context, network string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, c := range s.list {
			if !s.may(c, network) {
				continue
			}
			err := c.refresh(ctx)
			if err == nil {
				err = s.usable(ctx, c, &Question{Network: network})
			}
			if !yield(c.Name, err) {
				return
			}
		}
	}
}

// asked are the facilitators for a payment in the order in which they are asked.
func (s *Set) asked(q *Question) (list []*Client) {
	s.mu.Lock()
	first := s.verified[q.ID]
	s.mu.Unlock()
	for _, c := range s.list {
		if s.may(c, q.Network) {
			list = append(list, c)
		}
	}
	if i := slices.Index(list, first); i > 0 {
		list = slices.Insert(slices.Delete(list, i, i+1), 0, first)
	}
	return list
}

// remember stores the client that verified a payment.
func (s *Set) remember(id string, c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.verified[id]; !ok {
		s.order = append(s.order, id)
	}
	s.verified[id] = c
	if len(s.order) > maxRemembered {
		delete(s.verified, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
}

// failures are the reasons of all facilitators that did not answer.
type failures []string

func (f *failures) add(c *Client, err error) { *f = append(*f, c.Name+": "+err.Error()) }

func (f failures) error(what string) error {
	if len(f) == 0 {
		return fmt.Errorf("cannot %s the payment: no facilitator is used for its network", what)
	}
	return fmt.Errorf("cannot %s the payment: %s", what, strings.Join(f, "; "))
}
