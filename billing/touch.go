package billing

import (
	"sync"
	"sync/atomic"
	"time"
)

// touch is when a key was last used, to the second. Every request looks at it,
// so it is written once a second and is on a list at most once.
type touch struct {
	second atomic.Uint32 // Unix
	listed atomic.Bool
}

// touched are the keys whose last use the store does not have yet.
type touched struct {
	mu   sync.Mutex
	keys []*Key
}

// Touch records that the key was used now.
func (k *Key) Touch(nowNs int64) {
	t := &k.use.touch
	second := uint32(nowNs / int64(time.Second))
	if t.second.Load() >= second {
		return
	}
	t.second.Store(second)
	if !t.listed.Swap(true) {
		list := &k.Account.ledger.touched
		list.mu.Lock()
		list.keys = append(list.keys, k)
		list.mu.Unlock()
	}
}

// lastUsed is when the key was last used in this process, in Unix µs.
func (u *keyUse) lastUsed() int64 { return int64(u.touch.second.Load()) * 1e6 }

// flush writes what is listed. What cannot be written is tried again.
func (t *touched) flush(store Store) error {
	t.mu.Lock()
	list := t.keys
	t.keys = nil
	t.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	last := make(map[int64]int64, len(list))
	for _, k := range list {
		k.use.touch.listed.Store(false) // before the time is read: a later use lists it again
		last[k.No] = k.use.lastUsed()
	}
	err := store.TouchKeys(last)
	if err != nil {
		for _, k := range list {
			if !k.use.touch.listed.Swap(true) {
				t.mu.Lock()
				t.keys = append(t.keys, k)
				t.mu.Unlock()
			}
		}
	}
	return err
}

// tally counts the requests of a key in the calendar minute and hour, for the
// answer to what it has used; nothing is decided on it.
type tally struct {
	minute           int32
	inMinute, inHour int32
}

func (t *tally) add(nowNs int64) {
	if minute := int32(nowNs / minuteNs); minute != t.minute {
		if minute/60 != t.minute/60 {
			t.inHour = 0
		}
		t.minute, t.inMinute = minute, 0
	}
	t.inMinute++
	t.inHour++
}

// at is what was counted in the minute and hour of a time.
func (t *tally) at(nowNs int64) (inMinute, inHour int64) {
	minute := int32(nowNs / minuteNs)
	if t.minute == minute {
		inMinute = int64(t.inMinute)
	}
	if t.minute/60 == minute/60 {
		inHour = int64(t.inHour)
	}
	return inMinute, inHour
}
