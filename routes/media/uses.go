package media

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/providers/media"
	"farebox/routes"
)

const (
	// mostUses is how many links are remembered at once, about 200 bytes each.
	mostUses = 100_000
	// mostTimes bounds the bytes that a link for one download delivers, over all requests: so
	// many times the size, so that clients that break off can go on, and nobody makes a mirror of
	// all but the last byte.
	mostTimes = 4
)

// uses counts this node's requests of links. Only links that are ours are in it. How far one for
// one download was used is in the store, where all nodes see it.
type uses struct {
	mu   sync.Mutex
	list map[string]*use
}

// use counts the requests and bytes of one link.
type use struct {
	minute  int64 // since 1970
	count   int64 // requests in it
	expires time.Time

	// Of a link for one download, by this node.
	out   int64 // bytes that are on their way
	whole bool  // all of it is on its way to somebody
}

func newUses() *uses { return &uses{list: map[string]*use{}} }

// admit counts a request; wait is when the next one is answered, 0: this one is.
func (u *uses) admit(id string, now, expires time.Time, most int64) (wait time.Duration) {
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

// forget drops expired counts, and makes room in any case. The caller has mu.
func (u *uses) forget(now time.Time, minute int64) {
	for id, one := range u.list {
		if !now.Before(one.expires) || one.minute != minute && one.out == 0 {
			delete(u.list, id)
		}
	}
	for id, one := range u.list {
		if len(u.list) < mostUses {
			return
		}
		if one.out == 0 { // bytes under way are not counted anew
			delete(u.list, id)
		}
	}
}

// used is how far links for one download were used, as the store has it.
type used struct {
	node  uint32 // that hands over all of it just now; 0: none
	spans media.Spans
}

func readUsed(b []byte) (was used) {
	node, n := binary.Uvarint(b)
	if n <= 0 || node > math.MaxUint32 {
		return used{}
	}
	return used{uint32(node), media.ReadSpans(b[n:])}
}

func (d *used) append() []byte { return d.spans.Append(binary.AppendUvarint(nil, uint64(d.node))) }

// piece is a part of a file that a link for one download is to hand over.
type piece struct {
	id                 string
	from, length, size int64
}

func (p piece) whole() bool { return p.from == 0 && p.length == p.size }

// begin says whether a piece may be handed over: busy is that all of it, or as much as may
// be, is on its way to somebody, spent that it was had often enough: the links have ended
// then. Where it may, end must be called.
func (u *uses) begin(s routes.MediaStore, node uint32, p piece) (busy, spent bool, err error) {
	u.mu.Lock()
	one := u.list[p.id]
	if one == nil || one.whole || one.out >= mostTimes*p.size {
		u.mu.Unlock()
		return true, false, nil
	}
	one.out += p.length
	one.whole = p.whole()
	out := one.out - p.length
	u.mu.Unlock()
	spent = true // unless the store says otherwise
	err = s.UseLinks(p.id, func(links []byte, alive func(uint32) bool) store.LinkUse {
		d := readUsed(links)
		busy, spent = false, false
		switch sent := d.spans.Sent(); {
		case d.spans.Whole(p.size) || sent >= mostTimes*p.size:
			spent = true
			return store.LinkUse{EndUs: time.Now().UnixMicro()}
		case d.node != 0 && d.node != node && alive(d.node), sent+out >= mostTimes*p.size:
			busy = true
		case p.whole():
			d.node = node
			return store.LinkUse{Links: d.append()}
		}
		return store.LinkUse{}
	})
	if busy || spent || err != nil {
		u.release(p)
	}
	return busy, spent, err
}

// release notes that a piece is on its way no longer.
func (u *uses) release(p piece) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.list[p.id]; one != nil {
		one.out -= p.length
		one.whole = one.whole && !p.whole()
	}
}

const (
	// endTries is how often a store is asked to record the delivered bytes, and endEvery the wait
	// in between.
	endTries = 5
	endEvery = 200 * time.Millisecond
)

// end notes how much of a piece was delivered. With the last of a file its links end. Bytes that
// cannot be recorded stay on their way as far as this node knows.
func (u *uses) end(s routes.MediaStore, node uint32, p piece, sent int64) (err error) {
	for try := range endTries {
		if try > 0 {
			time.Sleep(endEvery)
		}
		err = s.UseLinks(p.id, func(links []byte, _ func(uint32) bool) (use store.LinkUse) {
			d := readUsed(links)
			if p.whole() && d.node == node {
				d.node = 0
			}
			if d.spans.Add(p.from, sent); d.spans.Whole(p.size) {
				use.EndUs = time.Now().UnixMicro()
			}
			use.Links = d.append()
			return use
		})
		if err == nil || errors.Is(err, store.ErrNoRow) {
			u.release(p)
			return nil
		}
	}
	return err
}
