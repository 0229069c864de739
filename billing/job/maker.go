package job

import (
	"context"
	"io"

	"farebox/config/asyncjob"
)

// Maker asks upstreams. Its calls end with their context. Safe for concurrent use.
type Maker interface {
	// AtOnce says that some upstream of a model answers an order with its result, which
	// takes as long as making it. Clients do not wait for Submit then.
	AtOnce(kind, model string) bool
	// Submit sends an order to the target that Upstream and Target of the task name, or, if
	// they are empty, to one that it chooses. An order without an error was accepted; the
	// error is an *asyncjob.Refused or an *asyncjob.Unknown.
	Submit(ctx context.Context, t asyncjob.Task) (*asyncjob.Submitted, error)
	// Poll asks for the status. After an error it is asked again.
	Poll(ctx context.Context, t asyncjob.Task) (*asyncjob.Status, error)
	// Cancel asks the upstream to stop, and says whether it confirms that it charges
	// nothing. After an error it is asked again.
	Cancel(ctx context.Context, t asyncjob.Task) (free bool, err error)
	// Fetch opens the result. contentType is the upstream's.
	Fetch(ctx context.Context, t asyncjob.Task, result []byte) (body io.ReadCloser, contentType string, err error)
}

// Keeper keeps results (providers/media).
type Keeper interface {
	// Put stores a body under an id, in the place of an earlier one, and returns its size. A
	// body that is larger than most or not of its type is asyncjob.ErrUnfit; a body without
	// room is asyncjob.ErrFull.
	Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (size int64, err error)
	// Delete removes it; a missing one is not an error.
	Delete(ctx context.Context, id string) error
}
