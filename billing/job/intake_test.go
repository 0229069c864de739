package job

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"farebox/config/asyncjob"
)

// "Eight films came at the same time, and each of them fitted."
func TestResultsThatComeTogetherShareTheRoom(t *testing.T) {
	t.Parallel()
	const room = 1000
	var in intake
	var counted atomic.Int64 // by the store, of completed jobs
	var all sync.WaitGroup
	var full atomic.Int64
	for range 40 {
		all.Go(func() {
			for range 10 {
				a := in.expect(io.LimitReader(strings.NewReader(strings.Repeat("x", 90)), 90))
				a.room = room - counted.Load()
				n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{a}, make([]byte, 7))
				if err == nil {
					counted.Add(n)
				} else if full.Add(1); !errors.Is(err, asyncjob.ErrFull) {
					t.Error(err)
				}
				a.done(err == nil)
			}
		})
	}
	all.Wait()
	if n := counted.Load(); n > room || n == 0 || full.Load() == 0 {
		t.Errorf("%d bytes are kept, %d found it full", n, full.Load())
	}
	if in.under.Load() != 0 || in.kept.Load() != counted.Load() {
		t.Errorf("%d bytes are under way, %d kept", in.under.Load(), in.kept.Load())
	}
	a := in.expect(strings.NewReader(strings.Repeat("x", 90)))
	a.room = 90
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{a}); n != 90 || err != nil {
		t.Errorf("a body that fits exactly: %d bytes, %v", n, err)
	}
}
