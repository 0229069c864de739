package rpc

import (
	"sync"
	"sync/atomic"
)

// pins record the node that took an account's last transaction, so that the
// account's reads see it: other nodes may learn of it seconds later.
type pins struct {
	some atomic.Bool // there may be a pin; mostly there is not
	mu   sync.Mutex
	m    map[string]pin
}

type pin struct {
	node    string
	untilNs int64
}

// maxPins bounds the memory; beyond it expired pins are dropped, and then any.
const maxPins = 100_000

func newPins() *pins { return &pins{m: map[string]pin{}} }

func (p *pins) set(account, node string, untilNs, nowNs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.m[account]; !ok && len(p.m) >= maxPins {
		for a, old := range p.m {
			if old.untilNs <= nowNs {
				delete(p.m, a)
			}
		}
		for a := range p.m {
			if len(p.m) < maxPins {
				break
			}
			delete(p.m, a)
		}
	}
	p.m[account] = pin{node, untilNs}
	p.some.Store(true)
}

// get is the node that an account is pinned to; may be empty.
func (p *pins) get(account string, nowNs int64) string {
	if !p.some.Load() {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.m[account]
	if !ok {
		return ""
	}
	if at.untilNs <= nowNs {
		delete(p.m, account)
		p.some.Store(len(p.m) > 0)
		return ""
	}
	return at.node
}
