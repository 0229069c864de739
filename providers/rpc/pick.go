package rpc

import (
	"time"

	policy "farebox/providers/attempt"
	"farebox/providers/health"
)

// picker chooses the nodes of one request: the pinned one first, then those that are not
// behind, where a node that is slow or fails loses turns, then those that are behind.
type picker = policy.Picker[*Node, nodeNeeds]

// nodeNeeds is the set of abilities that a request needs of a node.
type nodeNeeds struct {
	request *Request // every call of it, or
	method  *Method  // this one; with neither every node fits
	account uint64   // of the client
	batch   int      // calls at once; 0: one by one
	pinned  *Node    // is asked first
	not     *Node    // was asked before
}

// pick begins a request to the nodes of a network.
func (n *Network) pick(w nodeNeeds) (p picker) {
	p.Begin(n.Nodes, w.account)
	p.Rule, p.Fast = w, n.Config.PreferFast
	return p
}

// Target is policy.Rule.
func (nodeNeeds) Target(u *Node) (*health.Breaker, int) { return u.Breaker, u.Config.Weight }

// Rank is policy.Rule.
func (nn nodeNeeds) Rank(u *Node, nowNs int64) int {
	switch {
	case u.odd.Load() || u == nn.not || !nn.fits(u, nowNs):
		return -1
	case u == nn.pinned:
		return 0
	case u.current(nowNs):
		return 1
	}
	return 2
}

func (nn *nodeNeeds) fits(u *Node, nowNs int64) bool {
	if nn.method != nil && !u.serves(nn.method, nn.account, nowNs) || nn.request != nil &&
		!u.servesAll(nn.request, nn.account, nowNs) {
		return false
	}
	return nn.batch == 0 || u.batches(nn.batch, nn.account, nowNs)
}

// Pace is policy.Rule.
func (nodeNeeds) Pace(u *Node) *health.Pace { return u.pace }

// restsFor is how long until the first node may be asked again; 0: now.
func (n *Network) restsFor(nowNs int64) time.Duration {
	return policy.RestsFor(n.Nodes, nodeNeeds{}, nowNs)
}
