package jail

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// loud is a log that is read while it is written.
type loud struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *loud) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *loud) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// "A letter of a customer was in the log." However a child dies, and whatever it
// says of that, the log names a cause from a list.
func TestNothingThatAChildSaysIsInTheLog(t *testing.T) {
	for job, cause := range map[string]string{
		"panic": "panic", "index": "panic: runtime error: slice bounds out of range",
		"astray": "panic", "exit": "without a word", "forged log": "of something else",
		"forged panic": "panic", "overflow": "runtime: goroutine stack exceeds",
	} {
		var log loud
		p := pool(t, Options{Workers: 1, Log: zerolog.New(&log)})
		if _, err := do(t, p, job, "", []byte("secret bytes of a document")); !errors.Is(err, ErrDied) {
			t.Errorf("%s: %v, want ErrDied", job, err)
		}
		_ = p.Close()
		said := log.String()
		if want := `"cause":"` + cause + `"`; strings.Count(said, "\n") != 1 || !strings.Contains(said, want) ||
			strings.Contains(said, "secret") {
			t.Errorf("%s: the log has %q, want one line with %s", job, said, want)
		}
	}
}
