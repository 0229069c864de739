package job

import (
	"context"
	"errors"
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

// What a Keeper says of a body that it does not take, whoever sends it again.
var (
	ErrUnfit = errors.New("the result is too large, or has another type than it claims")
	ErrFull  = errors.New("there is no space left for the result")
)

// Keeper keeps what was made (providers/media).
type Keeper interface {
	// Put keeps a body under an id and says how large it was. It replaces what was there.
	// What is larger than most, or does not have the form of its type, is ErrUnfit; what passes a quota is ErrFull.
	Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (size int64, err error)
	// Delete forgets it; what is not there is no error.
	Delete(ctx context.Context, id string) error
}
