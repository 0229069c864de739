package schema

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"farebox/providers/jail"
)

const (
	// MaxSchema is the largest schema that is checked against.
	MaxSchema = 64 << 10
	// MaxAnswer is the largest answer that is checked.
	MaxAnswer = 8 << 20
)

// Limits of a check. The memory is that of a child beyond its start.
const (
	workers = 2
	queue   = 64
	memory  = 256 << 20
	cpu     = 2 * time.Second
	limit   = 3 * time.Second
	// patience is how long a check may wait for its turn, and then take. One that runs
	// already, and the child that replaces its one, take limit and some time.
	patience = 10 * time.Second
)

// Violation says why an answer cannot be given as one that follows its schema. Text is
// for the client.
type Violation struct{ Text string }

func (v *Violation) Error() string { return v.Text }

// Bad is a mistake in a schema. Text is for the client.
type Bad struct{ Text string }

func (b *Bad) Error() string { return b.Text }

// ErrUnchecked says that it is unknown whether an answer follows its schema: there was no
// place for the check, or it took too much time or memory.
var ErrUnchecked = errors.New("the answer could not be checked against its schema")

// Checker checks answers. Safe for concurrent use.
type Checker struct{ children *jail.Pool }

// New starts the children of a Checker; Close ends them.
func New(log zerolog.Logger) *Checker {
	return &Checker{jail.New(jail.Options{
		Work: work, Workers: workers, Queue: queue, Memory: memory, Limit: limit, CPU: cpu, Log: log,
	})}
}

// Close ends the children.
func (c *Checker) Close() { _ = c.children.Close() }

// Compiles returns the mistake in a schema: a *Bad, or why that is unknown. The child works
// for the owner and the meter of ctx, as with all of package jail.
func (c *Checker) Compiles(ctx context.Context, schema []byte) error {
	if len(schema) > MaxSchema {
		return &Bad{"has more than 64 KiB; with strict: true a schema may have 64 KiB at most."}
	}
	err := c.request(ctx, compileJob, task{Schema: schema})
	var refusal *jail.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && refusal.Code == codeSchema:
		return &Bad{refusal.Text}
	case errors.Is(err, jail.ErrTooSlow), errors.Is(err, jail.ErrDied):
		return &Bad{"takes too much time or memory to be read."}
	}
	return err
}

// Conforms says which of the answers does not follow the schema, a *Violation; or it is
// ErrUnchecked, or ctx's error.
func (c *Checker) Conforms(ctx context.Context, schema []byte, answers []string) error {
	size := 0
	for _, answer := range answers {
		size += len(answer)
	}
	if size > MaxAnswer {
		return &Violation{"The answer is too large to be checked against its schema; 8 MiB at most are."}
	}
	err := c.request(ctx, checkJob, task{Schema: schema, Answers: answers})
	var refusal *jail.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && refusal.Code == codeAnswer:
		return &Violation{refusal.Text}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return ErrUnchecked
}

func (c *Checker) request(ctx context.Context, job string, t task) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.children.Do(ctx, job, "", t.encode())
	return err
}
