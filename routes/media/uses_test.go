package media

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/store"
	"farebox/routes"
)

// shared is the store of two nodes, of which one may have died.
type shared struct {
	routes.MediaStore
	mu    sync.Mutex
	links []byte
	ended bool
	dead  uint32
	away  error
}

func (s *shared) UseLinks(_ string, use func([]byte, func(uint32) bool) store.LinkUse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil || s.ended {
		return s.away
	}
	u := use(s.links, func(node uint32) bool { return node != s.dead })
	if u.Links != nil {
		s.links = u.Links
	}
	s.ended = u.EndUs != 0
	return nil
}

// node is one node's record of uses.
func node(id string) *uses {
	u := newUses()
	u.admit(id, time.Now(), time.Now().Add(time.Hour), 1000)
	return u
}

// "A customer with ten connections had all but the last byte ten times."
func TestPiecesAtTheSameTimeAreCounted(t *testing.T) {
	t.Parallel()
	s, u := &shared{}, node(jobID)
	p := piece{jobID, 0, 999, 1000}
	var begun atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if busy, spent, err := u.begin(s, 1, p); !busy && !spent && err == nil {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if n := begun.Load(); n < 1 || n > mostTimes+1 {
		t.Errorf("it is handed over %d times at the same time", n)
	}
	for range begun.Load() {
		if err := u.end(s, 1, p, 0); err != nil { // they all broke off
			t.Fatal(err)
		}
	}
	if busy, spent, err := u.begin(s, 1, piece{jobID, 0, 1000, 1000}); busy || spent || err != nil {
		t.Errorf("a full one afterwards: %t %t %v", busy, spent, err)
	}
}

// Nodes behind one address allow one download together, whichever of them a request
// reaches.
func TestOneDownloadOfAllNodes(t *testing.T) {
	t.Parallel()
	whole, left, right := piece{jobID, 0, 1000, 1000}, piece{jobID, 0, 600, 1000}, piece{jobID, 500, 500, 1000}
	check := func(what string, busy, spent bool, err error, wantBusy, wantSpent bool) {
		t.Helper()
		if busy != wantBusy || spent != wantSpent || err != nil {
			t.Errorf("%s: busy %t, spent %t, %v", what, busy, spent, err)
		}
	}
	s, a, b := &shared{}, node(jobID), node(jobID)
	busy, spent, err := a.begin(s, 1, whole)
	check("the first", busy, spent, err, false, false)
	busy, spent, err = b.begin(s, 2, whole)
	check("while the other node hands it over", busy, spent, err, true, false)
	s.dead = 1
	busy, spent, err = b.begin(s, 2, left)
	check("after that node has died", busy, spent, err, false, false)
	if err := b.end(s, 2, left, 600); err != nil || s.ended {
		t.Errorf("after the first part: ended %t, %v", s.ended, err)
	}
	s.dead, a = 0, node(jobID) // it starts again
	busy, spent, err = a.begin(s, 1, right)
	check("the other part from the other node", busy, spent, err, false, false)
	if err := a.end(s, 1, right, 500); err != nil || !s.ended {
		t.Errorf("after the last byte: ended %t, %v", s.ended, err)
	}
	busy, spent, err = b.begin(s, 2, left)
	check("used up", busy, spent, err, false, true)
}
