package jail

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/fair"
)

// Word is the argument that makes this binary a child: main calls [Main] first
// thing when os.Args[1] is Word.
const Word = "jail-worker"

// The defaults of Options.
const (
	defaultWorkers = 2
	defaultMemory  = 512 << 20
	defaultLimit   = 20 * time.Second
	defaultMaxOut  = 32 << 20
	defaultJobs    = 200
	defaultQueue   = 128
)

const (
	// startLimit is how long a child may take until its jail is closed.
	startLimit = 30 * time.Second
	// cleanLimit is how long a child may take to clean up after a job.
	cleanLimit = 5 * time.Second
	// notBegun is the processor time of a child that had not begun its job.
	notBegun = 10 * time.Millisecond
	// The pause after a child that could not be started doubles from one to the
	// other; jobs are refused at once meanwhile.
	firstPause, maxPause = 100 * time.Millisecond, 5 * time.Second
)

// The ends of a job that gave neither bytes nor a Refusal.
var (
	// ErrDied says that the child crashed, panicked or ran out of memory.
	ErrDied = errors.New("jail: the child died")
	// ErrTooSlow says that the job ran out of time or of processor time.
	ErrTooSlow = errors.New("jail: the job took too long")
	// ErrTooLarge says that the input or the output is larger than allowed.
	ErrTooLarge = errors.New("jail: too large")
	// ErrBusy says that too many jobs wait already.
	ErrBusy = errors.New("jail: too many jobs wait")
	// ErrUnavailable says that no child can be started, or that the pool is closed.
	ErrUnavailable = errors.New("jail: no child can be started")
)

// errNotBegun says that the child was killed from outside before it had worked on the job,
// most likely while it was idle. Another child can do the job.
var errNotBegun = errors.New("jail: the child was killed before the job began")

// Refusal is a job's own error instead of an output. It crosses the pipe
// whole: Code (64 bytes at most) for programs, Text (1 KiB at most) for people.
type Refusal struct{ Code, Text string }

// Error is the code and the text.
func (r *Refusal) Error() string { return r.Code + ": " + r.Text }

// Options of a Pool; the zero value is fit for use.
type Options struct {
	// Command starts a child; empty: this binary with Word.
	Command []string
	// Work names the kind of child that the binary becomes (IsChild); empty: the usual one.
	Work string
	// Cache is a directory that only the operator can write to. Before their jail closes,
	// children put compiled code there; the next child runs it. Empty: nothing is cached.
	Cache string
	// Workers is how many jobs and programs run at once; 0: 2.
	Workers int
	// Queue is how many more may wait, by turns of their owners; 0: 128.
	Queue int
	// Memory is a child's address space beyond that of its start; 0: 512 MiB.
	Memory int64
	// Limit is the time, and CPU the processor time, of one job; 0: 20s each.
	Limit, CPU time.Duration
	// MaxOut is the largest output; 0: 32 MiB.
	MaxOut int
	// Jobs is the number of jobs after which a child is replaced; 0: 200. With 1, a
	// document that takes a child over never meets another's.
	Jobs int
	// Log is notified of children that die. It never sees their documents.
	Log zerolog.Logger
}

// Pool hands jobs to its children. Safe for concurrent use.
type Pool struct {
	o             Options
	turns         *fair.Turns // places for jobs and programs together
	calls         chan *call  // of jobs that have their turn
	forks         chan func() // run on the one thread that is the children's parent
	first         sync.Mutex  // until one child has filled the cache, the others wait
	warmed        atomic.Bool
	started, died atomic.Int64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	once   sync.Once
	ended  chan struct{} // closed once no child is left
}

// call is one job for a child.
type call struct {
	ctx       context.Context
	job, word string
	in        []byte
	out       []byte
	err       error
	done      chan struct{}
}

func (c *call) end(out []byte, err error) {
	c.out, c.err = out, err
	close(c.done)
}

// New starts a pool; its children start in the background. Close ends it.
func New(o Options) *Pool {
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	o.CPU = cmp.Or(o.CPU, defaultLimit)
	o.MaxOut = cmp.Or(o.MaxOut, defaultMaxOut)
	o.Jobs = cmp.Or(o.Jobs, defaultJobs)
	if len(o.Command) == 0 {
		o.Command = ownCommand()
		if o.Work != "" {
			o.Command = append(o.Command, o.Work)
		}
	}
	p := &Pool{
		o: o, turns: fair.NewTurns(o.Workers, o.Queue), calls: make(chan *call),
		forks: make(chan func()), ended: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.fork()
	for range o.Workers {
		p.work.Go(p.serve)
	}
	return p
}

// fork runs the starts of children on a thread of its own that lives as long as
// the pool: a child dies with the thread that made it, not with the process.
func (p *Pool) fork() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for {
		select {
		case f := <-p.forks:
			f()
		case <-p.ended:
			return
		}
	}
}

// Do has a child do a job on in, which it does not keep. word is the job's parameter, at
// most 4 KiB. The job waits for the turn of its owner ([fair.Of]), and its processor time
// counts in the meter of ctx ([fair.MeterOf]). The error is a *Refusal, one of the Err…, or
// ctx's; with it Do returns the output that the job had sent before ([Send]).
func (p *Pool) Do(ctx context.Context, job, word string, in []byte) ([]byte, error) {
	if len(in) > maxIn || len(word) > maxWord || len(job) > maxJob {
		return nil, ErrTooLarge
	}
	place, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer place.Done()
	for range 2 {
		c := &call{ctx: ctx, job: job, word: word, in: in, done: make(chan struct{})}
		select {
		case p.calls <- c:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.ctx.Done():
			return nil, ErrUnavailable
		}
		<-c.done // soon after ctx ends: the child is killed
		if c.err != errNotBegun {
			return c.out, c.err
		}
	}
	return nil, ErrUnavailable
}

// turn waits for a place. Work of an owner that may use no more unpaid time is refused.
func (p *Pool) turn(ctx context.Context) (fair.Place, error) {
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	place, err := p.turns.Take(waits, fair.Of(ctx))
	switch {
	case err == nil && fair.MeterOf(ctx).Wait() > 0:
		place.Done()
		return place, ErrBusy
	case err == nil:
		return place, nil
	case errors.Is(err, fair.ErrFull):
		return place, ErrBusy
	case ctx.Err() != nil:
		return place, ctx.Err()
	}
	return place, ErrUnavailable
}

// onStart is the key of OnStart's function in a context.
type onStart struct{}

// OnStart makes a context whose job calls f once it has begun, not while it waits for a
// child. f is called once for every step of a job of several.
func OnStart(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onStart{}, f)
}

// begun calls the function of ctx from OnStart.
func begun(ctx context.Context) {
	if f, ok := ctx.Value(onStart{}).(func()); ok {
		f()
	}
}

// Limit is the time of one job.
func (p *Pool) Limit() time.Duration { return p.o.Limit }

// Close kills the children and ends their jobs with ErrUnavailable.
func (p *Pool) Close() error {
	p.once.Do(func() {
		p.cancel()
		p.work.Wait()
		close(p.ended)
	})
	return nil
}

// Waiting is how many jobs wait or are worked on; Started and Died are how many
// children were started and how many of them died.
func (p *Pool) Waiting() int64 { return int64(p.turns.Waiting()) }

// Started is how many children were started so far.
func (p *Pool) Started() int64 { return p.started.Load() }

// Died is how many children died by themselves.
func (p *Pool) Died() int64 { return p.died.Load() }

// serve is one worker: it owns one child at a time and does one call after the
// other with it.
func (p *Pool) serve() {
	var kid *child
	defer func() {
		if kid != nil {
			kid.end()
		}
	}()
	pause := firstPause
	for p.ctx.Err() == nil {
		if kid == nil {
			var err error
			if kid, err = p.start(); err != nil {
				if p.ctx.Err() != nil {
					return // Close ended it
				}
				p.o.Log.Error().Err(err).Msg("cannot start a child of the jail")
				p.refuse(pause)
				pause = min(2*pause, maxPause)
				continue
			}
		}
		select {
		case <-p.ctx.Done():
			return
		case <-kid.gone: // killed from outside, such as by the kernel
			p.childDied(kid, nil)
			kid = nil
		case c := <-p.calls:
			pause = firstPause
			if !p.do(kid, c) {
				kid.end()
				kid = nil
			}
		}
	}
}

// refuse answers calls for a while: there is no child for them.
func (p *Pool) refuse(pause time.Duration) {
	over := time.After(pause)
	for {
		select {
		case c := <-p.calls:
			c.end(nil, ErrUnavailable)
		case <-over:
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// do has a child do one call and says whether the child is fit for another.
func (p *Pool) do(kid *child, c *call) (fit bool) {
	limited, cancel := context.WithTimeout(c.ctx, p.o.Limit)
	defer cancel()
	begun(c.ctx)
	late, closed := context.AfterFunc(limited, kid.kill), context.AfterFunc(p.ctx, kid.kill)
	watch := watchCPU(kid, p.o.CPU)
	r, err := kid.exchange(c, p.o.MaxOut)
	overspent := watch.stop()
	// Before the answer: a later end of the caller's context does not concern the child.
	inTime, open := late(), closed()
	if err != nil || r.status == panicked {
		killed := err != nil && kid.killed()
		kid.end()
		used := watch.used(kid)
		fair.MeterOf(c.ctx).Add(used)
		switch {
		case c.ctx.Err() != nil:
			err = c.ctx.Err()
		case overspent || !inTime:
			err = ErrTooSlow
		case !open:
			err = ErrUnavailable
		case killed && used < p.o.CPU/2:
			// From outside, such as by the kernel when the machine has no memory: not because of
			// the job.
			p.childDied(kid, r.text)
			err = ErrUnavailable
			if (!watch.known || used < notBegun) && len(r.output) == 0 {
				err = errNotBegun
			}
		default:
			p.childDied(kid, r.text)
			err = ErrDied
		}
		c.end(r.output, err)
		return false
	}
	fair.MeterOf(c.ctx).Add(watch.used(kid))
	switch r.status {
	case done:
		c.end(r.output, nil)
	case refused:
		c.end(r.output, &Refusal{Code: r.code, Text: string(r.text)})
	default:
		c.end(r.output, ErrTooLarge)
		return false
	}
	kid.jobs++
	if !inTime || !open {
		return false
	}
	if !kid.clean() {
		p.childDied(kid, nil)
		return false
	}
	return kid.jobs < p.o.Jobs && !kid.grown(p.o.Memory/4)
}

// childDied notes a child that died by itself.
func (p *Pool) childDied(kid *child, said []byte) {
	p.died.Add(1)
	kid.end()
	if said == nil {
		said = kid.said.bytes()
	}
	p.o.Log.Warn().Str("cause", causeOf(said)).Str("ended", kid.ended()).Msg("a child of the jail died")
}

// start makes a child and waits until its jail is closed.
func (p *Pool) start() (kid *child, err error) {
	p.first.Lock()
	if p.warmed.Load() {
		p.first.Unlock()
	} else {
		defer p.first.Unlock()
	}
	of := settings{memory: p.o.Memory, cpu: p.o.CPU * time.Duration(p.o.Jobs), maxOut: p.o.MaxOut, cache: p.o.Cache}
	kid, err = newChild(p.command(of.String()), p.forks)
	if err != nil {
		return nil, err
	}
	p.started.Add(1)
	limited, cancel := context.WithTimeout(p.ctx, startLimit)
	defer cancel()
	defer context.AfterFunc(limited, kid.kill)()
	s, _, _, err := readReply(kid.out, 0)
	if err != nil || s != ready {
		kid.end()
		// No job was near it, so that its own message can be shown.
		return nil, errors.New(kid.ended() + ": " + string(kid.said.bytes()))
	}
	kid.began = memoryOf(kid.cmd.Process.Pid)
	p.warmed.Store(true)
	return kid, nil
}

// command starts a child; its settings are arguments: it has no
// environment.
func (p *Pool) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.o.Command[0], append(p.o.Command[1:len(p.o.Command):len(p.o.Command)], args...)...)
	cmd.Env = []string{}
	cmd.Dir = string(os.PathSeparator)
	confineStart(cmd)
	return cmd
}
