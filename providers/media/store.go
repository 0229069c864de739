package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
)

// Store keeps files by the ids of their jobs. All of it may be used by several
// goroutines at once. It is a job.Keeper.
type Store interface {
	// Put stores a body under an id and returns its size. It replaces an older one at once
	// and whole. A body that is larger than most, or does not begin as files of its type
	// do, is an *Unfit: the body is read no further, and nothing is kept.
	Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (size int64, err error)
	// Open reads a file from an offset on; length below 0: to its end. ErrNone: there is
	// no such file. An open file can be read to its end although it is deleted.
	Open(ctx context.Context, id string, from, length int64) (io.ReadCloser, error)
	// Size is how many bytes a file has. ErrNone: there is no such file.
	Size(ctx context.Context, id string) (int64, error)
	// Delete removes a file; a missing one is no error.
	Delete(ctx context.Context, id string) error
	// List calls each for every file, in no order, until it returns false.
	List(ctx context.Context, each func(File) (more bool)) error
	// Name is the place, for operators.
	Name() string
}

// File is one entry of a Store.
type File struct {
	ID      string
	Size    int64
	Changed time.Time
}

// ErrNone is a Store's error for a file that it does not have.
var ErrNone = errors.New("there is no such file")

// Unfit is an asyncjob.ErrUnfit: no other try of the same body would be stored.
type Unfit struct{ Why string }

func (u *Unfit) Error() string { return "the result cannot be stored: " + u.Why }

// Is makes it an asyncjob.ErrUnfit.
func (u *Unfit) Is(target error) bool { return target == asyncjob.ErrUnfit }

// errID is an invalid id; we make those of jobs.
var errID = errors.New("this is not an id of a job")

// checkID lets nothing through that could name another place than its own file.
func checkID(id string) error {
	if len(id) < 8 || len(id) > 64 {
		return errID
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0) {
			return errID
		}
	}
	return nil
}

// New opens the store that a config names.
func New(cfg *config.Config) (Store, error) {
	if cfg.Media.S3 != nil {
		b, err := openBucket("media.s3", cfg.Media.S3)
		if err != nil {
			return nil, fmt.Errorf("cannot use media.s3: %w", err)
		}
		return b, nil
	}
	l := openLocal(cfg.MediaDir(), int64(cfg.Media.FreeBytes))
	if cfg.Media.Dir != "" {
		if err := l.create(); err != nil {
			return nil, fmt.Errorf("cannot store results in %s: %w; farebox must be able to write to it",
				cfg.MediaDir(), err)
		}
	}
	return l, nil
}
