package jsonrpc

import (
	"math/rand/v2"
	"time"
)

// Pick chooses the nodes of one conversation, one after the other, without
// allocating: the pinned one first, then by weight among those that are well,
// not behind and serve what is asked, where a second draw may take the turn of
// a node that is slow or fails (pace). What rests or is behind comes last. None
// is chosen twice. Every node that was chosen must be reported on.
type Pick struct {
	network *Network
	tried   uint64
	any     bool
}

// want is what a node must be able to do.
type want struct {
	request *Request // every call of it, or
	method  *Method  // this one
	account uint64   // for which
	batch   int      // calls at once; 0: one by one
	pinned  *Node    // first of all
}

func (w *want) fits(u *Node, nowNs int64) bool {
	if u.odd.Load() {
		return false
	}
	if w.method != nil {
		if !u.serves(w.method, w.account, nowNs) {
			return false
		}
	} else if !u.servesAll(w.request, w.account, nowNs) {
		return false
	}
	return w.batch == 0 || u.batches(w.batch, w.account, nowNs)
}

// next is the next node to ask, nil when there is no further one.
func (p *Pick) next(w *want, nowNs int64) *Node {
	if u := w.pinned; u != nil && !p.any {
		for i, node := range p.network.Nodes {
			if node == u && w.fits(u, nowNs) && u.Breaker.AcquireFor(w.account, nowNs) {
				p.tried |= 1 << i
				p.any = true
				return u
			}
		}
	}
	head := p.network.heads.newest(nowNs)
	for _, current := range [2]bool{true, false} {
		if u := p.draw(w, nowNs, head, current); u != nil {
			return u
		}
		if head == 0 {
			break // nobody is known to be behind
		}
	}
	if p.any {
		return nil
	}
	return p.lastResort(w, nowNs)
}

// leaveOut keeps a node from being chosen.
func (p *Pick) leaveOut(u *Node) {
	for i, node := range p.network.Nodes {
		if node == u {
			p.tried |= 1 << i
		}
	}
}

// draw takes one of the free nodes; current ones are those that are not behind.
func (p *Pick) draw(w *want, nowNs, head int64, current bool) *Node {
	nodes := p.network.Nodes
	for {
		at := p.lot(w, nowNs, head, current, -1)
		if at < 0 {
			return nil
		}
		if p.network.Config.PreferFast {
			if other := p.lot(w, nowNs, head, current, at); other >= 0 && nodes[at].pace.worse(nodes[other].pace, nowNs) {
				at = other
			}
		}
		p.tried |= 1 << at
		if nodes[at].Breaker.AcquireFor(w.account, nowNs) {
			p.any = true
			return nodes[at]
		}
	}
}

// lot is one of the free nodes but not, by weight; -1: there is none.
func (p *Pick) lot(w *want, nowNs, head int64, current bool, not int) int {
	nodes := p.network.Nodes
	total, last := 0, -1
	for i, u := range nodes {
		if i != not && p.free(i, w, nowNs) && p.network.current(u, head, nowNs) == current {
			total += u.Config.Weight
			last = i
		}
	}
	if last < 0 || total == nodes[last].Config.Weight {
		return last
	}
	n := rand.IntN(total)
	for i, u := range nodes {
		if i == not || !p.free(i, w, nowNs) || p.network.current(u, head, nowNs) != current {
			continue
		}
		if n -= u.Config.Weight; n < 0 {
			return i
		}
	}
	return last
}

func (p *Pick) free(i int, w *want, nowNs int64) bool {
	u := p.network.Nodes[i]
	return p.tried&(1<<i) == 0 && u.Breaker.ReadyFor(w.account, nowNs) && w.fits(u, nowNs)
}

// lastResort probes the node whose rest ends first: a client that would be
// refused anyway loses nothing by it.
func (p *Pick) lastResort(w *want, nowNs int64) *Node {
	best := -1
	for i, u := range p.network.Nodes {
		if !w.fits(u, nowNs) || p.tried&(1<<i) != 0 {
			continue
		}
		if best < 0 || u.Breaker.RestsUntil() < p.network.Nodes[best].Breaker.RestsUntil() {
			best = i
		}
	}
	if best < 0 || !p.network.Nodes[best].Breaker.ProbeFor(w.account, nowNs) {
		return nil
	}
	p.tried |= 1 << best
	p.any = true
	return p.network.Nodes[best]
}

// restsFor is how long until the first node may be asked again; 0: now.
func (n *Network) restsFor(nowNs int64) time.Duration {
	least := int64(-1)
	for _, u := range n.Nodes {
		if u.odd.Load() {
			continue
		}
		left := max(u.Breaker.RestsUntil()-nowNs, 0)
		if least < 0 || left < least {
			least = left
		}
	}
	return time.Duration(max(least, 0))
}
