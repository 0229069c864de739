package jail

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// child is a process as its parent sees it. One goroutine uses it; kill may be
// called by any.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	said  firstBytes    // its stderr
	gone  chan struct{} // closed once the process has ended
	heard chan struct{} // closed once said is complete
	state *os.ProcessState

	jobs  int
	began int64 // memory it held when it was ready
}

// maxSaid bounds the stored part of a dying child's stderr: the first line is enough.
const maxSaid = 200

// firstBytes keeps the first line of its input, maxSaid bytes at most, and drops the rest:
// a stack trace may hold bytes of the document.
type firstBytes struct {
	mu  sync.Mutex
	buf []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = append(f.buf, p[:min(len(p), maxSaid-len(f.buf))]...)
	return len(p), nil
}

func (f *firstBytes) bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, _, _ := bytes.Cut(f.buf, []byte("\n"))
	return line
}

// newChild starts cmd on the thread that forks runs on.
func newChild(cmd *exec.Cmd, forks chan<- func()) (*child, error) {
	c := &child{cmd: cmd, gone: make(chan struct{}), heard: make(chan struct{})}
	said, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = theirs
	go func() {
		_, _ = io.Copy(&c.said, said)
		_ = said.Close()
		close(c.heard)
	}()
	defer theirs.Close()
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	forks <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	// Not cmd.Wait, which would close the pipe that the last reply may be in.
	go func() {
		lowerThread()
		state, _ := cmd.Process.Wait()
		c.state = state
		close(c.gone)
	}()
	return c, nil
}

// reply is the outcome of a job: output belongs to it, text to a refusal or a panic.
type reply struct {
	status
	code         string
	text, output []byte
}

// exchange sends a call and reads the reply. The output of a call that fails is the pieces
// that the job sent before.
func (c *child) exchange(call *call, most int) (r reply, err error) {
	if err = writeRequest(c.in, call.job, call.word, call.in); err != nil {
		return r, err
	}
	var pieces [][]byte
	defer func() {
		if r.output = bytes.Join(pieces, nil); len(pieces) == 1 {
			r.output = pieces[0] // not a copy of it
		}
	}()
	for {
		var got []byte
		if r.status, r.code, got, err = readReply(c.out, most); err != nil {
			return r, err
		}
		switch {
		case r.status == ready || r.status == idle:
			return r, errFrame
		case !r.carriesOutput():
			r.text = got
		case len(got) > 0:
			pieces = append(pieces, got)
			most -= len(got)
		}
		if r.status != part {
			return r, nil
		}
	}
}

// clean waits until the child has freed the memory of its last job.
func (c *child) clean() bool {
	late := time.AfterFunc(cleanLimit, c.kill)
	s, _, _, err := readReply(c.out, 0)
	return late.Stop() && err == nil && s == idle
}

// grown says that the child holds more memory than when it began.
func (c *child) grown(by int64) bool {
	return c.began > 0 && memoryOf(c.cmd.Process.Pid)-c.began > by
}

// kill ends the child and all of its group.
func (c *child) kill() { killGroup(c.cmd.Process) }

// goneSoon bounds the wait for a killed child. The kernel may take longer to clean up after
// it, and the next child need not wait for that.
const goneSoon = 100 * time.Millisecond

// killed says that another process killed the child, before [child.end] does it.
func (c *child) killed() bool {
	select {
	case <-c.gone:
	case <-time.After(goneSoon):
	}
	return c.ended() == "signal: killed"
}

// end kills the child and waits until it is gone, for goneSoon at most.
func (c *child) end() {
	c.kill()
	select {
	case <-c.gone:
	case <-time.After(goneSoon):
	}
	<-c.heard
	_ = c.in.Close()
	_ = c.out.Close()
}

// ended is the end of the process, such as "signal: killed".
func (c *child) ended() string {
	select {
	case <-c.gone:
	default:
		return "not cleaned up yet"
	}
	if c.state == nil {
		return errors.ErrUnsupported.Error()
	}
	return c.state.String()
}

// cpuWatch kills a child whose job took more processor time than it may.
type cpuWatch struct {
	start time.Time
	began time.Duration // processor time of the child before the job
	known bool          // the system reports it

	mu    sync.Mutex
	timer *time.Timer
	over  bool
	ended bool
}

// firstLook is the time of the first check of a job's processor time.
const firstLook = 50 * time.Millisecond

// watchCPU checks as often as the job could have used up its time with all its threads
// running: where the system does not report another process's time, the clock alone counts.
func watchCPU(c *child, most time.Duration) *cpuWatch {
	w := &cpuWatch{start: time.Now()}
	if w.began, w.known = cpuOf(c.cmd.Process.Pid); !w.known {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(most/childThreads, func() {
		used, ok := cpuOf(c.cmd.Process.Pid)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch left := most - (used - w.began); {
		case w.ended || !ok:
		case left <= 0:
			w.over = true
			c.kill()
		default:
			w.timer.Reset(max(left/childThreads, firstLook))
		}
	})
	return w
}

// stop ends the watch and says whether it killed the child.
func (w *cpuWatch) stop() (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.over
}

// used is the processor time of the job so far. Where the system does not report it, it is
// the time that has passed.
func (w *cpuWatch) used(c *child) time.Duration {
	select {
	case <-c.gone:
		if w.known && c.state != nil {
			return c.state.UserTime() + c.state.SystemTime() - w.began
		}
	default:
		if now, ok := cpuOf(c.cmd.Process.Pid); ok && w.known {
			return now - w.began
		}
	}
	return time.Since(w.start)
}
