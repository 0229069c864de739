//go:build linux && (amd64 || arm64)

package jail

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAProgramReadsStdinAndWritesStdout(t *testing.T) {
	t.Setenv("FAREBOX_SECRET", "hunter2")
	p := pool(t, Options{Workers: 1})
	in := bytes.Repeat([]byte("farebox\n"), 100_000)
	if out, err := p.Run(t.Context(), in, "cat"); err != nil || !bytes.Equal(out, in) {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if out, err := p.Run(t.Context(), nil, "env"); err != nil || len(out) != 0 {
		t.Errorf("environment %q, %v", out, err)
	}
	var r *Refusal
	if _, err := p.Run(t.Context(), nil, "sh", "-c", "echo what is wrong >&2; echo more >&2; exit 3"); !errors.As(err,
		&r) ||
		*r != (Refusal{"3", "what is wrong"}) {
		t.Errorf("%v", err)
	}
	if _, err := p.Run(t.Context(), nil, "/nonexistent/tool"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

func TestAProgramReachesNothing(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(unreached(t))
	p := pool(t, Options{Workers: 1})
	for _, misdeed := range []string{
		"echo x > " + made, "echo x >> " + kept, "/bin/true & wait", "(true)", "rm " + kept, "exec rm -f " + kept,
		"kill -0 1", "exec bash -c 'echo x > /dev/tcp/127.0.0.1/" + port + "'", "exec chmod 777 " + kept,
	} {
		if out, err := p.Run(t.Context(), nil, "sh", "-c", misdeed); err == nil {
			t.Errorf("%s: %q, want an error", misdeed, out)
		}
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("a program made a file")
	}
	if b, err := os.ReadFile(kept); err != nil || len(b) != 0 {
		t.Errorf("a program changed a file: %q, %v", b, err)
	}
}

func TestAProgramEndsAtItsLimits(t *testing.T) {
	limits := Options{Workers: 1, Limit: 1500 * time.Millisecond, MaxOut: 1000, Memory: 64 << 20}
	p := pool(t, limits)
	if _, err := p.Run(t.Context(), nil, "sleep", "60"); !errors.Is(err, ErrTooSlow) {
		t.Errorf("%v, want ErrTooSlow", err)
	}
	limits.Limit = time.Minute // a busy machine takes long to reach the others
	if _, err := pool(t, limits).Run(t.Context(), nil, "cat", "/dev/zero"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, nil, "sleep", "60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's", err)
	}
	_, err := pool(t, limits).Run(t.Context(), nil, "awk", `BEGIN { s = "x"; while (1) s = s s }`)
	var r *Refusal
	if !errors.As(err, &r) && !errors.Is(err, ErrDied) {
		t.Errorf("%v, want a failure for want of memory", err)
	}
}
