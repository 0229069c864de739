package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// OperateShared opens a shared store for an operator. It needs no server and
// disturbs none: changes reach the nodes through their feed. The Ledger is not
// a node and admits nothing.
func OperateShared(address, brand string) (*Ledger, error) {
	return Open(Options{Shared: address, Brand: brand, idle: true})
}

// openOperator is Open without a journal and without leases.
func (l *Ledger) openOperator(o *Options) (*Ledger, error) {
	err := l.openStore(o)
	if err == nil {
		l.registry, err = newRegistry()
	}
	if err == nil {
		err = l.loadModels()
	}
	if err == nil {
		err = l.useStoreClock(o)
	}
	if err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	return l, nil
}

// useStoreClock has an operator's command write down the store's time, and act
// on the day that it is there, as nodes do. With a clock that is far off it only
// reads, suspends and revokes: a key that leaked cannot wait for NTP.
func (l *Ledger) useStoreClock(o *Options) error {
	s, ok := l.store.(store.Shared)
	if !ok || !o.compares {
		return nil
	}
	nowUs, err := s.Now()
	if err != nil {
		return fmt.Errorf("cannot read the clock of the store: %w", err)
	}
	skew := l.at().Wall - nowUs*1000
	if max(skew, -skew) > readingLeast {
		l.ahead.Store(-skew)
	}
	l.farOff = farApart("PostgreSQL", time.Duration(skew))
	return nil
}

// mayChange refuses operations that an operator's command must not do with a wrong clock.
func (l *Ledger) mayChange(m mode) error {
	if m&change == 0 || m&urgent != 0 {
		return nil
	}
	return l.farOff
}

// NodeInfo is a node of a shared store.
type NodeInfo struct {
	Number        uint32    `json:"number"`
	Incarnation   uint32    `json:"incarnation"`
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	State         string    `json:"state"`                 // live, gone or ended
	Expires       time.Time `json:"session_ends,omitzero"` // by the store's clock
	money.Amounts           // leased to it
}

// ErrNotShared is a question about nodes to an embedded store.
var ErrNotShared = errors.New("the store is embedded and has no nodes; set store to postgres://… to share it")

// ListNodes lists the nodes of the shared store.
type ListNodes struct{}

func (ListNodes) carryOut(l *Ledger, c *call) ([]NodeInfo, error) {
	s, shared := l.store.(store.Shared)
	if !shared {
		return nil, ErrNotShared
	}
	rows, err := s.Nodes()
	if err != nil {
		return nil, fmt.Errorf("cannot list the nodes: %w", err)
	}
	list := make([]NodeInfo, len(rows))
	for i, r := range rows {
		n := NodeInfo{
			Number: r.No, Incarnation: r.Inc, ID: r.ID, Name: r.Name, Expires: fromMicro(r.ExpiresUs), State: "live",
			Amounts: r.Leased.Amounts(),
		}
		switch {
		case r.Left:
			n.State = "ended"
		case n.Expires.Before(l.clock()):
			n.State = "gone"
		}
		list[i] = n
	}
	return list, nil
}

// ReleaseNode takes back the leases of a node that has stopped for good. Should it come
// back, its remaining charges are booked then.
type ReleaseNode struct {
	Node string `json:"node"` // name or id
}

func (r ReleaseNode) carryOut(l *Ledger, c *call) (Nothing, error) {
	s, shared := c.store.(store.Shared)
	if !shared {
		return Nothing{}, ErrNotShared
	}
	c.entry.Subject = r.Node
	c.answers(fixed(Nothing{}))
	if err := s.ReleaseNode(r.Node); err != nil {
		return Nothing{}, fmt.Errorf("cannot release the node %q: %w", r.Node, err)
	}
	return Nothing{}, nil
}

// NodeLabel names this process among the nodes of a shared store; empty on an
// embedded one.
func (l *Ledger) NodeLabel() string {
	if l.node == nil {
		return ""
	}
	return fmt.Sprintf("%s (number %d)", l.node.name, l.node.no)
}
