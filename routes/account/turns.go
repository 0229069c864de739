package account

import (
	"time"

	"farebox/proxy"
	"farebox/routes"
)

const (
	// changesWaiting is how many changes of keys may wait for their turn, and changeWait for how long.
	changesWaiting = 256
	changeWait     = 8 * time.Second
)

// inTurn has customers change keys by turns. The ledger makes one such change at a time, also those of
// operators: they must not wait for all changes that one customer sends.
func (c *Capability) inTurn(change routes.Handler) routes.Handler {
	return func(call *routes.Call) *routes.Error {
		place, taken, cause := call.TakeTurn(c.changes, changeWait)
		switch {
		case !taken && cause == proxy.None:
			return tooMany("changes of API keys")
		case !taken:
			return call.Unreachable(&proxy.Result{Cause: cause})
		}
		defer place.Done()
		return change(call)
	}
}
