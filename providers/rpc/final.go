package rpc

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"farebox/proxy"
)

// maxFinalAnswer is more than a block without its transactions' bodies has.
const maxFinalAnswer = 1 << 20

// finals tracks the blocks of a network that cannot change any more: those up to the lowest
// finalized block that its nodes report, while they agree on its hash and on the blocks
// that were final before. Nodes are asked in the background while there is traffic that
// could be cached, and not otherwise.
type finals struct {
	network *Network
	every   int64 // ns
	asking  atomic.Bool
	askedNs atomic.Int64

	block   atomic.Int64 // 0: nothing is known to be final
	blockNs atomic.Int64 // when that was
	// generation counts the changes of final blocks and the disagreements of nodes: answers
	// stored before are not given any more.
	generation atomic.Int64

	was    []finalBlock   // earlier final blocks, rising; only for the goroutine that asks
	agrees []atomic.Int64 // by node: when it last agreed with all others
}

// finalMemory is how many final blocks are remembered.
const finalMemory = 64

// finalBlock is a node's finalized block.
type finalBlock struct {
	number int64
	hash   string // in lower case
}

func newFinals(n *Network) *finals {
	return &finals{
		network: n, every: int64(n.Config.Cache.FinalEvery), agrees: make([]atomic.Int64, len(n.Nodes)),
	}
}

// touch asks the nodes again when it is time. It never waits.
func (f *finals) touch(p *proxy.Proxy, nowNs int64) {
	if nowNs-f.askedNs.Load() < f.every || !f.asking.CompareAndSwap(false, true) {
		return
	}
	f.askedNs.Store(nowNs)
	go func() {
		defer f.asking.Store(false)
		f.learn(func(u *Node, tag string) (finalBlock, bool) { return u.askBlock(p, tag) }, time.Now().UnixNano())
	}()
}

// top is the newest final block, 0 when that is not known.
func (f *finals) top(nowNs int64) int64 {
	if nowNs-f.blockNs.Load() > headKept*f.every {
		return 0
	}
	return f.block.Load()
}

// agreed says that a node was asked recently and agreed with all others.
func (f *finals) agreed(u *Node, nowNs int64) bool {
	// By name: a network that was configured anew may have taken the cache over.
	i := slices.IndexFunc(f.network.Nodes, func(node *Node) bool { return node.Name == u.Name })
	return i >= 0 && nowNs-f.agrees[i].Load() <= headKept*f.every
}

// learn asks all nodes for their finalized block. Earlier final blocks must still be there
// under their hash, in every node, and so must the lowest of the new ones; only then are
// blocks up to it final. Nodes that fell back, such as services that ask another of their
// own each time, are trusted up to the last block that was final then.
func (f *finals) learn(ask func(u *Node, tag string) (finalBlock, bool), nowNs int64) {
	lowest := int64(0)
	for _, b := range f.round(ask, "finalized") {
		if b.number > 0 && (lowest == 0 || b.number < lowest) {
			lowest = b.number
		}
	}
	if lowest == 0 {
		return // the known final block expires by itself
	}
	at := len(f.was) - 1
	for at >= 0 && f.was[at].number > lowest {
		at--
	}
	sound := at >= 0 || len(f.was) == 0
	next := finalBlock{number: lowest}
	if sound && at >= 0 {
		sound = f.same(ask, &f.was[at], nowNs)
		if at < len(f.was)-1 {
			next = f.was[at]
		}
	}
	if sound && next.hash == "" && (at < 0 || next.number > f.was[at].number) {
		if sound = f.same(ask, &next, nowNs); sound && next.hash == "" {
			return // no node has it at the moment
		}
		if sound {
			if len(f.was) == finalMemory {
				f.was = slices.Delete(f.was, 0, 1)
			}
			f.was = append(f.was, next)
		}
	}
	if !sound {
		// Stored answers are not given any more, and no block is final
		// until a round finds no contradiction.
		f.block.Store(0)
		f.generation.Add(1)
		f.was = nil
		return
	}
	f.block.Store(next.number)
	f.blockNs.Store(nowNs)
}

// same asks all nodes for a block and says whether those that have it agree on
// its hash, which is learnt when it is not known.
func (f *finals) same(ask func(u *Node, tag string) (finalBlock, bool), want *finalBlock, nowNs int64) bool {
	reported := f.round(ask, "0x"+strconv.FormatInt(want.number, 16))
	for _, b := range reported {
		if b.number == 0 {
			continue
		}
		if want.hash == "" {
			want.hash = b.hash
		}
		if b.number != want.number || b.hash != want.hash {
			return false
		}
	}
	for i, b := range reported {
		if b.number != 0 {
			f.agrees[i].Store(nowNs)
		} else {
			f.agrees[i].Store(0)
		}
	}
	return true
}

// round asks all nodes for a block; number 0: there was no answer.
func (f *finals) round(ask func(u *Node, tag string) (finalBlock, bool), tag string) []finalBlock {
	reported := make([]finalBlock, len(f.network.Nodes))
	f.network.each(func(i int, u *Node) {
		if u.odd.Load() {
			return
		}
		if b, ok := ask(u, tag); ok {
			reported[i] = b
		}
	})
	return reported
}

// askBlock asks one node for number and hash of a block.
func (n *Node) askBlock(p *proxy.Proxy, tag string) (finalBlock, bool) {
	a := attempts.Get().(*attempt)
	defer a.release()
	q := ownQuestion(nil, "eth_getBlockByNumber", `["`+tag+`",false]`)
	q.wait, q.within = headWait, headWait
	if _, ok := a.open(&ClientContext{Proxy: p, Alone: true}, n, q); !ok {
		return finalBlock{}, false
	}
	if a.read(maxFinalAnswer) != nil || a.x.Status() >= 300 || a.judge.Answers[0].Failed() {
		return finalBlock{}, false
	}
	return readBlock(a.result())
}

// readBlock reads number and hash of a block.
func readBlock(raw []byte) (finalBlock, bool) {
	n, ok := quantity(field(raw, "number"))
	hash := gjson.GetBytes(raw, "hash").Str
	return finalBlock{number: n, hash: string(bytes.ToLower([]byte(hash)))}, ok && n > 0 && hash != ""
}

// quantity reads a block number as Ethereum writes them: "0x1b4".
func quantity(raw []byte) (int64, bool) {
	const most = 15 // digits, which fit
	if len(raw) < 5 || len(raw) > 4+most || raw[0] != '"' || raw[len(raw)-1] != '"' || raw[1] != '0' || raw[2] != 'x' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[3:len(raw)-1]), 16, 63)
	return int64(n), err == nil
}

// field is a member of an object as it is written; nil if absent.
func field(raw []byte, name string) []byte {
	v := gjson.GetBytes(raw, name)
	if v.Raw == "" {
		return nil
	}
	return []byte(v.Raw)
}
