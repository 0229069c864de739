package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is one kind of dangerous work: bytes and a parameter in, bytes out. An error
// that is a *Refusal crosses to the caller as it is, any other as one with the
// code "failed". A job runs alone in its child.
type Job func(in []byte, word string) (out []byte, err error)

// Send gives the caller a piece of a job's output before the job ends. The caller keeps it
// for every outcome of the job, also when the child is killed. Only a job in a child may
// call it.
func Send(piece []byte) error { return writeReply(stdout, part, "", piece) }

// Jobs are the jobs of a child, by name.
type Jobs map[string]Job

// Warm runs once in a child, while it still may open files: it compiles code that later
// jobs need. cache is Options.Cache.
type Warm func(cache string) error

// childThreads is how many threads of a child run Go code at once: the job's and
// the garbage collector's.
const childThreads = 2

// maxStack bounds the stack of a job; the runtime's own limit is a gigabyte.
const maxStack = 64 << 20

// settings of a child cross as its last argument.
type settings struct {
	memory int64
	cpu    time.Duration
	maxOut int
	cache  string
}

// String is the text that parseSettings reads.
func (s settings) String() string {
	return fmt.Sprintf("%d,%d,%d,%s", s.memory, int64(s.cpu), s.maxOut, s.cache)
}

var errNoSettings = errors.New("jail: a child needs its settings: only the gateway starts it")

func parseSettings(text string) (s settings, err error) {
	parts := strings.SplitN(text, ",", 4)
	if len(parts) != 4 {
		return s, errNoSettings
	}
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return s, err
		}
	}
	return settings{memory: n[0], cpu: time.Duration(n[1]), maxOut: int(n[2]), cache: parts[3]}, nil
}

// IsChild says that this process is a child of that Work.
func IsChild(work string) bool {
	if len(os.Args) < 2 || os.Args[1] != Word {
		return false
	}
	if work == "" {
		return len(os.Args) <= 3 || os.Args[2] == toolWord
	}
	return len(os.Args) == 4 && os.Args[2] == work
}

// Main is the main function of a child; it does not return. It warms up, closes its jail
// and does jobs until its stdin ends.
func Main(jobs Jobs, warm ...Warm) {
	// A program that starts children in its own way may put arguments before Word.
	args := os.Args[slices.Index(os.Args, Word)+1:]
	if len(args) > 0 && args[0] == toolWord {
		fmt.Fprintln(os.Stderr, become(args[1:]))
		os.Exit(exitNotStarted)
	}
	err := live(args[max(0, len(args)-1):], jobs, warm) // a Work may precede
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func live(args []string, jobs Jobs, warm []Warm) error {
	if len(args) != 1 {
		return errNoSettings
	}
	s, err := parseSettings(args[0])
	if err != nil {
		return err
	}
	closeInherited()
	preferForOOM()
	runtime.GOMAXPROCS(childThreads)
	debug.SetMemoryLimit(s.memory / 4 * 3)
	debug.SetMaxStack(maxStack)
	for _, w := range warm {
		if err := w(s.cache); err != nil {
			return fmt.Errorf("jail: cannot warm up: %w", err)
		}
	}
	debug.FreeOSMemory() // of warming up
	// The runtime opens the descriptors of its timers with the first of them.
	time.Sleep(time.Microsecond)
	if err := confine(s); err != nil {
		return fmt.Errorf("jail: cannot close: %w", err)
	}
	if err := writeReply(stdout, ready, "", nil); err != nil {
		return err
	}
	for {
		if err := work(jobs, s.maxOut); err != nil {
			return err
		}
	}
}

// work does one job.
func work(jobs Jobs, maxOut int) error {
	name, word, in, err := readRequest(stdin)
	if err != nil {
		return err
	}
	out, err := try(jobs[name], in, word)
	var refusal *Refusal
	var fault *fault
	switch {
	case errors.As(err, &fault):
		_ = writeReply(stdout, panicked, "", []byte(fault.text))
		return fault
	case errors.As(err, &refusal):
		err = writeReply(stdout, refused, refusal.Code, []byte(refusal.Text))
	case err != nil:
		err = writeReply(stdout, refused, "failed", []byte(err.Error()))
	case len(out) > maxOut:
		err = writeReply(stdout, outsized, "", nil)
	default:
		err = writeReply(stdout, done, "", out)
	}
	if err != nil {
		return err
	}
	clean()
	return writeReply(stdout, idle, "", nil)
}

// fault is a panic of a job, after which nothing in the child is trusted.
type fault struct{ text string }

func (f *fault) Error() string { return f.text }

// try runs a job. Its panic is shown only as far as it cannot hold bytes of the document.
func try(job Job, in []byte, word string) (out []byte, err error) {
	if job == nil {
		return nil, &Refusal{Code: "unknown", Text: "no such job"}
	}
	returned := false
	defer func() {
		switch v := recover().(type) {
		case nil:
			if !returned {
				os.Exit(2) // a job that ended its goroutine, and with it this loop
			}
		case runtime.Error:
			err = &fault{"panic: " + v.Error()}
		default:
			err = &fault{fmt.Sprintf("panic: %T", v)}
		}
	}()
	out, err = job(in, word)
	returned = true
	return out, err
}

// cleanAbove is the heap above which a job's memory is given back at once: below it the
// collector frees it in its own time.
const cleanAbove = 32 << 20

func clean() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Uint64() > cleanAbove {
		debug.FreeOSMemory()
	}
}
