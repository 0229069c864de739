package rpc

import (
	"sync"

	"farebox/billing"
)

// Blockchain requests that are carried to their end though their client leaves:
// writes, which a node may have taken already, and those with an idempotency
// key, whose repetition is to find an answer. A node that hangs holds each for
// rpc.networks[].timeouts.total, so there are only so many of them; those beyond
// are cut when their client leaves, and charged all the same.
const (
	maxCarried = 4096
	// maxCarriedByOne is how many an account may have: it cannot take the slots
	// of all others.
	maxCarriedByOne = 512
)

// carrier counts requests that do not end with their client.
type carrier struct {
	mu        sync.Mutex
	all       int
	byAccount map[*billing.AccountState]int
}

// take takes a slot, or not when there is none.
func (c *carrier) take(a *billing.AccountState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxCarried || c.byAccount[a] >= maxCarriedByOne {
		return false
	}
	if c.byAccount == nil {
		c.byAccount = map[*billing.AccountState]int{}
	}
	c.all++
	c.byAccount[a]++
	return true
}

func (c *carrier) give(a *billing.AccountState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.byAccount[a]--; c.byAccount[a] == 0 {
		delete(c.byAccount, a)
	}
}

// count is how many there are.
func (c *carrier) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}
