package billing

import (
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing/store"
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
func (t *touched) flush(store store.Store) error {
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
