package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"farebox/config/fair"
)

// toolWord precedes the settings of a child that becomes another program.
const toolWord = "tool"

// Run runs a program of the operator's with in on stdin, and returns its stdout. The
// program has a child's limits, none of the gateway's environment, one thread for its work,
// and, on Linux, neither network nor processes nor anything to write to; unlike a child it
// may open files for reading, which it cannot start without. A program that fails is a
// *Refusal, whose Code is its exit code and whose Text the first line that it wrote to
// stderr. With ErrTooLarge, ErrTooSlow and ErrDied it returns the output until then.
func (p *Pool) Run(ctx context.Context, in []byte, path string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(path)
	if err != nil {
		return nil, ErrUnavailable
	}
	place, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer place.Done()
	limited, cancel := context.WithTimeout(ctx, p.o.Limit)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()

	s := settings{memory: p.o.Memory, cpu: p.o.CPU}
	cmd := p.command(append([]string{toolWord, s.String(), path}, args...)...)
	cmd.Env = []string{oneThread}
	out := &boundedBuffer{most: p.o.MaxOut}
	said := &firstBytes{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, said
	out.full = func() { killGroup(cmd.Process) }
	cmd.WaitDelay = time.Second
	started := make(chan error)
	select {
	case p.forks <- func() { started <- cmd.Start() }:
	case <-p.ctx.Done():
		return nil, ErrUnavailable
	}
	if err := <-started; err != nil {
		return nil, ErrUnavailable
	}
	begun(ctx)
	stop := context.AfterFunc(limited, func() { killGroup(cmd.Process) })
	err = cmd.Wait()
	inTime := stop()
	fair.MeterOf(ctx).Add(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.ctx.Err() != nil:
		return nil, ErrUnavailable
	case out.over:
		return out.buf.Bytes(), ErrTooLarge
	case !inTime:
		return out.buf.Bytes(), ErrTooSlow
	case err == nil:
		return out.buf.Bytes(), nil
	}
	code := cmd.ProcessState.ExitCode()
	// Its stderr may quote its input.
	p.o.Log.Warn().Str("program", path).Str("ended", cmd.ProcessState.String()).Msg("a program in the jail failed")
	switch code {
	case -1:
		return out.buf.Bytes(), ErrDied // by a signal, of which too much processor time is one
	case exitNotStarted:
		return nil, ErrUnavailable
	}
	return nil, &Refusal{Code: fmt.Sprint(code), Text: string(said.bytes())}
}

// oneThread keeps programs that share their work among threads (OpenMP: tesseract) from
// busy waits for each other, which are longer on a busy machine and count as processor
// time.
const oneThread = "OMP_THREAD_LIMIT=1"

// exitNotStarted says that the program could not be started.
const exitNotStarted = 120

// boundedBuffer keeps most bytes and then ends its writer.
type boundedBuffer struct {
	buf  bytes.Buffer
	most int
	over bool
	full func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.over || b.buf.Len()+len(p) > b.most {
		if !b.over && b.full != nil {
			b.full()
		}
		b.over = true
		return len(p), nil
	}
	return b.buf.Write(p)
}

// become turns a child into another program; it returns only if that fails.
func become(args []string) error {
	if len(args) < 2 {
		return errors.New("jail: a program needs its path")
	}
	s, err := parseSettings(args[0])
	if err != nil {
		return err
	}
	preferForOOM()
	return os.NewSyscallError("exec", confineAndExec(s, args[1], args[1:]))
}
