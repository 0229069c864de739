package billing

import (
	"errors"
	"sync"
	"time"

	"farebox/config/fair"
)

// ErrManyTokens is a single-use token of an owner that has its share of those that are
// remembered.
var ErrManyTokens = errors.New("too many single-use tokens were used that have not expired")

// tokenRoom bounds the used tokens that the store remembers until they expire. A sign-in
// is recorded before its request is admitted, so that without a bound a wallet without
// money could fill the store. Each node counts its own, of this process.
type tokenRoom struct {
	room *fair.Room

	mu   sync.Mutex
	held map[int64]map[fair.Owner]int64 // by the minute after which they have expired
}

// mostTokens is how many are remembered, of 100 bytes each.
const mostTokens = 1 << 20

func newTokenRoom(most int64) *tokenRoom {
	return &tokenRoom{room: fair.NewRoom(most), held: map[int64]map[fair.Owner]int64{}}
}

// take counts a token of an owner until it expires, or says that it has its share.
func (t *tokenRoom) take(o fair.Owner, expires time.Time, nowNs int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for minute, owners := range t.held {
		if minute*int64(time.Minute) > nowNs {
			continue
		}
		delete(t.held, minute)
		for o, n := range owners {
			t.room.Give(o, n)
		}
	}
	if !t.room.Take(o, 1) {
		return false
	}
	minute := max(expires.UnixNano(), nowNs)/int64(time.Minute) + 1
	if t.held[minute] == nil {
		t.held[minute] = map[fair.Owner]int64{}
	}
	t.held[minute][o]++
	return true
}
