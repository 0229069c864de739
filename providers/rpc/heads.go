package rpc

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"farebox/config/fair"
	"farebox/proxy"
)

const (
	// headWait is how long a node may take to report its head.
	headWait = 3 * time.Second
	// headKept is the number of rounds for which a reported head counts.
	headKept = 5
)

// heads tracks the newest blocks of a network's nodes. They are asked in the background
// while there is traffic, and not otherwise.
type heads struct {
	network *Network
	every   int64 // ns; 0: never
	asking  atomic.Bool
	askedNs atomic.Int64
	top     atomic.Int64 // the newest trusted block
	topNs   atomic.Int64
}

func newHeads(n *Network) *heads {
	h := &heads{network: n}
	if len(n.Nodes) > 1 && n.Config.MaxLag > 0 && n.Family.Head != nil {
		h.every = int64(n.Config.HeadEvery)
	}
	return h
}

// touch asks the nodes again when it is time. It never waits.
func (h *heads) touch(p *proxy.Proxy, nowNs int64) {
	if h.every == 0 || nowNs-h.askedNs.Load() < h.every || !h.asking.CompareAndSwap(false, true) {
		return
	}
	h.askedNs.Store(nowNs)
	go func() {
		defer h.asking.Store(false)
		h.poll(p)
	}()
}

// each runs f for all nodes at once. A node whose answer makes f panic has failed.
func (n *Network) each(f func(i int, u *Node)) {
	fair.Each(len(n.Nodes), len(n.Nodes), func(i int) {
		defer func() {
			if recover() != nil {
				n.Nodes[i].Breaker.Failed(time.Now().UnixNano(), 0)
			}
		}()
		f(i, n.Nodes[i])
	})
}

// poll asks all nodes at once.
func (h *heads) poll(p *proxy.Proxy) {
	h.network.each(func(_ int, u *Node) {
		if n, ok := u.askHead(p, h.network.Family); ok {
			u.head.Store(n)
			u.headNs.Store(time.Now().UnixNano())
		}
	})
	now := time.Now().UnixNano()
	var known []int64
	for _, u := range h.network.Nodes {
		if !u.odd.Load() && now-u.headNs.Load() < headKept*h.every {
			known = append(known, u.head.Load())
		}
	}
	if len(known) == 0 {
		return
	}
	slices.Sort(known)
	top := known[len(known)-1]
	if len(known) > 2 {
		// One node with a false head must not make all others look behind.
		top = known[len(known)-2]
	}
	h.top.Store(top)
	h.topNs.Store(now)
}

// newest is the newest trusted block, 0 when that is not known.
func (h *heads) newest(nowNs int64) int64 {
	if h.every == 0 || nowNs-h.topNs.Load() > headKept*h.every {
		return 0
	}
	return h.top.Load()
}

// current says whether a node is near enough to the newest block. One whose head is not
// known is trusted.
func (n *Node) current(nowNs int64) bool {
	h := n.of.heads
	newest := h.newest(nowNs)
	if newest == 0 || nowNs-n.headNs.Load() > headKept*h.every {
		return true
	}
	return newest-n.head.Load() <= n.of.Config.MaxLag
}

// askHead asks one node for its newest block or slot.
func (n *Node) askHead(p *proxy.Proxy, f *Family) (int64, bool) {
	a := attempts.Get().(*attempt)
	defer a.release()
	q := ownQuestion(f.Head, f.Head.Name, "")
	q.wait, q.within = headWait, headWait
	if r := a.call(&ClientContext{Proxy: p, Alone: true}, n, q); r.kind != answered || a.large || a.judge.Answers[0].Failed() {
		return 0, false
	}
	return number(a.result())
}

// number reads a block number: "0x1b4", 436.
func number(raw []byte) (int64, bool) {
	raw = bytes.Trim(raw, `"`)
	if hex, ok := bytes.CutPrefix(raw, []byte("0x")); ok {
		n, err := strconv.ParseInt(string(hex), 16, 64)
		return n, err == nil && n > 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil && n > 0
}
