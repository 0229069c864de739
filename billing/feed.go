package billing

import (
	"errors"

	"farebox/billing/store"
)

// feed follows the changes by other nodes and operators in the shared store. The
// store numbers changes in the order in which they are committed, so a reader
// that continues after the last number misses none.
type feed struct {
	last uint64
}

// poll takes over the changes since the last time.
func (n *node) poll() {
	list, err := n.store.Changes(n.feed.last)
	if errors.Is(err, store.ErrFeedGap) {
		err = n.reload()
	}
	n.heard(err)
	if err != nil {
		return
	}
	for i := range list {
		c := &list[i]
		if err := n.changed(c); err != nil {
			n.heard(err)
			return // the same change again at the next look
		}
		n.feed.last = c.No
	}
}

func (n *node) changed(c *store.Change) error {
	switch c.Kind {
	case store.ChangeKey:
		return n.reloadKey(c.Key)
	case store.ChangeRecall:
		n.recalled(c)
	case store.ChangeQuestion:
		n.question(c)
	case store.ChangeSteering:
		return n.l.readSteering()
	case store.ChangeAccount, store.ChangeCredit, store.ChangeAllowance, store.ChangeDebt:
		if c.Kind == store.ChangeAccount {
			if err := n.eraseHere(c.Account); err != nil {
				return err
			}
		}
		a := n.l.loaded(c.Account)
		if a == nil {
			return nil
		}
		row, err := n.l.store.Account(c.Account, n.day.Load())
		if err != nil {
			return err
		}
		a.setStatus(row.Status)
		a.rename(row.Name)
		a.mu.Lock()
		a.refill, a.paid = row.DIEMDaily, a.paid || row.Paid
		n.queue.queueVisit(a)
		a.mu.Unlock()
	}
	return nil
}

// reloadKey makes the store's version of a key current here. A lookup that read
// the key before the change finds that keys have changed, and reads it again.
func (n *node) reloadKey(number int64) error {
	r := n.l.registry
	r.mu.Lock()
	k := r.byNo[number]
	if k == nil {
		r.changed() // it may have been asked for before it was made
	}
	r.mu.Unlock()
	if k == nil {
		return nil
	}
	row, err := n.l.store.KeyByID(k.ID)
	if errors.Is(err, store.ErrNoRow) {
		n.l.forgetKey(k)
		return nil
	}
	if err != nil {
		return err
	}
	_, err = n.l.replaceKey(row)
	return err
}

// reload reads all keys in memory again, when changes are gone that this node
// has not read.
func (n *node) reload() error {
	b, err := n.beat()
	if err != nil {
		return err
	}
	r := n.l.registry
	r.mu.Lock()
	var list []int64
	for number := range r.byNo {
		list = append(list, number)
	}
	r.changed()
	r.mu.Unlock()
	for _, number := range list {
		if err := n.reloadKey(number); err != nil {
			return err
		}
	}
	for _, a := range n.l.allLoaded() {
		if err := n.changed(&store.Change{Kind: store.ChangeAccount, Account: a.no}); err != nil {
			return err
		}
	}
	n.feed.last = b.Feed
	return n.l.readSteering()
}
