package media

import (
	"sync"
	"time"

	"farebox/providers/media"
)

const (
	// mostUses is how many links are remembered at once, about 200 bytes each.
	mostUses = 100_000
	// mostTimes bounds what a link for one download hands over, however it is asked: so
	// many times the size, so that clients that break off can go on, and nobody makes a
	// mirror of all but the last byte.
	mostTimes = 4
)

// uses is what this node has seen of links. Only links that are ours are in it.
type uses struct {
	mu   sync.Mutex
	list map[string]*use
}

// use is what was done with one link.
type use struct {
	minute  int64 // since 1970
	count   int64 // requests in it
	expires time.Time

	// Of a link for one download.
	spans media.Spans
	whole bool // all of it is on its way to somebody
}

func newUses() *uses { return &uses{list: map[string]*use{}} }

// ask counts a request; wait is when the next one is answered, 0: this one is.
func (u *uses) ask(id string, now, expires time.Time, most int64) (wait time.Duration) {
	minute := now.Unix() / 60
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.list[id]
	if one == nil {
		if len(u.list) >= mostUses {
			u.forget(now, minute)
		}
		one = &use{expires: expires}
		u.list[id] = one
	}
	if one.minute != minute {
		one.minute, one.count = minute, 0
	}
	if one.count++; one.count > most {
		return time.Unix(60*(minute+1), 0).Sub(now)
	}
	return 0
}

// forget drops what means nothing any more, and makes room in any case. The caller has mu.
func (u *uses) forget(now time.Time, minute int64) {
	for id, one := range u.list {
		if !now.Before(one.expires) || one.minute != minute && one.spans.Sent() == 0 && !one.whole {
			delete(u.list, id)
		}
	}
	for id := range u.list {
		if len(u.list) < mostUses {
			return
		}
		delete(u.list, id)
	}
}

// begin says whether a piece of a file may be handed over by a link for one download:
// busy is that all of it is on its way to somebody, spent that it was had often enough.
func (u *uses) begin(id string, from, length, size int64) (busy, spent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.list[id]
	switch {
	case one == nil:
		return true, false // it was forgotten just now
	case one.spans.Whole(size) || one.spans.Sent() >= mostTimes*size:
		return false, true
	case one.whole:
		return true, false
	}
	one.whole = from == 0 && length == size
	return false, false
}

// end notes what was handed over, and says whether that was the last of it.
func (u *uses) end(id string, from, length, size, sent int64) (done bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.list[id]
	if one == nil {
		return sent == size
	}
	if from == 0 && length == size {
		one.whole = false
	}
	one.spans.Add(from, sent)
	return one.spans.Whole(size)
}
