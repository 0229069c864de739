package rpc

import (
	"testing"
	"time"
)

// paced runs so much traffic over nodes that answer as fast as latency says, on
// a clock of its own, and counts who was asked.
type paced struct {
	n       *Network
	now     int64
	latency []time.Duration
	fails   []bool
}

func newPaced(weights ...int) *paced {
	p := &paced{n: network(weights...), now: int64(1_000_000 * time.Second), fails: make([]bool, len(weights))}
	for _, u := range p.n.Nodes {
		u.Config.Breaker.Failures = 0
	}
	for range weights {
		p.latency = append(p.latency, 20*time.Millisecond)
	}
	return p
}

// run sends a request each 10 ms; answers come when their time has passed.
func (p *paced) run(d time.Duration) (asked []int) {
	type answer struct {
		at, took int64
		node     int
	}
	var open []answer
	asked = make([]int, len(p.n.Nodes))
	w := nodeNeeds{method: p.n.Family.Find([]byte("eth_call"))}
	for end := p.now + int64(d); p.now < end; p.now += int64(10 * time.Millisecond) {
		for i := 0; i < len(open); i++ {
			if a := open[i]; a.at <= p.now {
				r := reply{kind: answered}
				if p.fails[a.node] {
					r.kind = busy
				}
				p.n.Nodes[a.node].paced(r, a.at, a.took)
				open = append(open[:i], open[i+1:]...)
				i--
			}
		}
		pick := p.n.pick(w)
		u := pick.Next(p.now)
		u.Breaker.Released()
		u.pace.Ask(p.now)
		for i, node := range p.n.Nodes {
			if node == u {
				asked[i]++
				open = append(open, answer{p.now + int64(p.latency[i]), int64(p.latency[i]), i})
			}
		}
	}
	return asked
}

// Nodes that are equally fast are asked by their weights.
func TestEqualNodesKeepTheirWeights(t *testing.T) {
	p := newPaced(1, 3, 1)
	p.run(time.Second)
	asked := p.run(100 * time.Second)
	if asked[1] < 5500 || asked[1] > 6500 || asked[0] < 1600 || asked[0] > 2400 {
		t.Errorf("weights 1, 3, 1 give %v of 10000", asked)
	}
	// A little slower does not matter.
	p.latency[1] = 28 * time.Millisecond
	p.run(30 * time.Second)
	if asked = p.run(100 * time.Second); asked[1] < 5500 || asked[1] > 6500 {
		t.Errorf("weights 1, 3, 1 give %v of 10000 when the second is a little slower", asked)
	}
}

// A node that became slow, or fails, has little of the traffic and comes back
// when it is well again.
func TestSlowNodeIsAskedLessUntilItRecovers(t *testing.T) {
	for name, change := range map[string]func(p *paced, bad bool){
		"slow": func(p *paced, bad bool) {
			p.latency[0] = 20 * time.Millisecond
			if bad {
				p.latency[0] = 400 * time.Millisecond
			}
		},
		"failing": func(p *paced, bad bool) { p.fails[0] = bad },
	} {
		p := newPaced(1, 1)
		p.run(10 * time.Second)
		change(p, true)
		p.run(5 * time.Second)
		if asked := p.run(200 * time.Second); asked[0] < 2 || asked[0] > 1000 {
			t.Errorf("%s: the bad node was asked %v of 20000", name, asked)
		}
		change(p, false)
		p.run(100 * time.Second)
		if asked := p.run(100 * time.Second); asked[0] < 4500 || asked[0] > 5500 {
			t.Errorf("%s: the recovered node is asked %v of 10000", name, asked)
		}
	}
	// Of three nodes the two good ones share the slow one's part.
	p := newPaced(1, 1, 1)
	p.latency[2] = 400 * time.Millisecond
	p.run(10 * time.Second)
	if asked := p.run(100 * time.Second); asked[2] > 1000 || asked[0] < 4000 || asked[1] < 4000 {
		t.Errorf("beside a slow third node the good ones have %v of 10000", asked)
	}
	// A node that has never answered is no better than one that has.
	p = newPaced(1, 1)
	p.fails[0] = true
	p.run(5 * time.Second)
	if asked := p.run(100 * time.Second); asked[0] > 1000 {
		t.Errorf("a node that failed from the start is asked %v of 10000", asked)
	}
}
