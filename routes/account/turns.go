package account

import (
	"context"
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
		place, free := c.changes.Try(call.Owner())
		if !free {
			taken := false
			cause, _ := call.Await(changeWait, func(ctx context.Context) (err error) {
				place, err = c.changes.Take(ctx, call.Owner())
				taken = err == nil
				return err
			})
			switch {
			case taken:
			case cause == proxy.ClientGone || cause == proxy.ClientStalled:
				return call.Unreachable(&proxy.Result{Cause: cause})
			default:
				return tooMany("changes of API keys")
			}
		}
		defer place.Done()
		return change(call)
	}
}
