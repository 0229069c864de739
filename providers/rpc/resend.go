package rpc

import (
	"bytes"
	"time"

	"farebox/config/fair"
)

// A signed transaction has the same hash however often it is sent, and a chain takes it
// once. So it may be sent again when a node did not answer, and an error that a node has it
// already counts as success.

const (
	// lookWait is how long a node may take to say whether it has a transaction.
	lookWait = 5 * time.Second
	// lookNodes is how many nodes are asked for it.
	lookNodes = 2
	// lookShare of the time that a request may take in all, and at most lookWait, is kept
	// for that question: clients need its answer most for a transaction that no node
	// confirmed.
	lookShare = 4
)

// keptToLook is the time that is reserved, when call i is sent, for the search.
func (j *Job) keptToLook(i int) time.Duration {
	if !j.Calls[i].Method.Raw {
		return 0
	}
	return min(lookWait, j.from.Network.limit()/lookShare)
}

var lookMethods = map[string]string{"evm": "eth_getTransactionByHash", "solana": "getTransaction"}

// taken makes the answer of a transaction that a node has already: the answer that it would
// have given the first time.
func (j *Job) taken(a *attempt, i int, u *Node, hash []byte) Result {
	a.x.Close()
	a.large = false
	a.buf = appendResult(a.buf[:0], defaultID, hash)
	a.judge.Reset()
	a.judge.Write(a.buf)
	return j.settleCall(a, i, u)
}

// sent is a transaction of a batch that a node refused as one it has already, or
// whose nonce was used.
type sent struct {
	call  int
	hash  []byte
	there bool // the chain has it
}

// sentHash is the hash of call i of a batch, nil when it is not a transaction that
// has one.
func (j *Job) sentHash(i int) []byte {
	if !j.Calls[i].Method.Raw {
		return nil
	}
	return transactionHash(j.from.Network.Family, j.Params(i))
}

// lookUp asks, side by side, for the transactions of a batch that the chain may not have.
// One after the other, a hundred of them would take a hundred times as long.
func (j *Job) lookUp(list []sent, u *Node) {
	var open []int
	for i := range list {
		if !list[i].there {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return
	}
	j.Attempts += len(open)
	fair.Each(len(open), j.from.Network.parallel(), func(k int) {
		s := &list[open[k]]
		s.there = j.landed(u, s.hash) != nil
	})
}

// landed asks nodes whether they have a transaction. It asks lookNodes, the
// one that may have taken it first, in the rest of the request's time.
func (j *Job) landed(first *Node, hash []byte) *Node {
	t := &j.from
	f := t.Network.Family
	m := f.Find([]byte(lookMethods[f.Name]))
	if m == nil {
		return nil
	}
	look := attempts.Get().(*attempt)
	defer look.release()
	pick := t.Network.pick(nodeNeeds{method: m, account: j.account, pinned: first})
	q := ownQuestion(m, m.Name, "["+string(hash)+"]")
	q.wait = lookWait
	for turn := range lookNodes {
		now := time.Now().UnixNano()
		// A slow node must leave as much time to the other.
		if q.within = min(lookWait, j.left(now)/time.Duration(lookNodes-turn)); q.within <= 0 {
			break
		}
		u := pick.Next(now)
		if u == nil {
			break
		}
		r := look.call(t, u, q)
		pick.Report(u, u.verdict(r), time.Now().UnixNano())
		if r.kind == gone {
			break
		}
		if r.kind == answered && !look.judge.Answers[0].Failed() &&
			(look.large || !bytes.Equal(look.result(), []byte("null"))) {
			return u
		}
	}
	return nil
}
