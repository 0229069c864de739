//go:build linux && !race

package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// streamMemoryLimit is the most memory of one open stream (KiB).
const streamMemoryLimit = 31

// Open streams cost one page of buffer each, a stack, and the server's own memory:
// measured from outside, on a gateway in a process of its own.
func TestOpenStreamsAreCheap(t *testing.T) {
	if up := os.Getenv("FAREBOX_TEST_GATEWAY"); up != "" {
		gatewayProcess(t, up)
		return
	}
	streams := 2000
	if n, err := strconv.Atoi(os.Getenv("FAREBOX_TEST_STREAMS")); err == nil {
		streams = n
	}
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		for {
			if _, err := io.WriteString(c, chunk("data: "+strings.Repeat("x", 190)+"\n\n")); err != nil {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenStreamsAreCheap$", "-test.v")
	cmd.Env = append(os.Environ(), "FAREBOX_TEST_GATEWAY="+u.addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	addr := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if a, ok := strings.CutPrefix(lines.Text(), "gateway at "); ok {
			addr = a
			break
		}
	}
	open := func(n int) {
		for range n {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_, _ = io.WriteString(c, post(`{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("hello ",
				150)+`"}],"stream":true}`))
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}
	open(20)
	time.Sleep(time.Second)
	before := rss(t, cmd.Process.Pid)
	open(streams)
	eventually(t, "all streams are open", func() bool { return int(u.open.Load()) == streams+20 })
	time.Sleep(2 * time.Second)
	each := float64(rss(t, cmd.Process.Pid)-before) / float64(streams)
	t.Logf("%.1f KiB a stream with %d streams", each, streams)
	if each > streamMemoryLimit {
		t.Errorf("%.1f KiB a stream, at most %d", each, streamMemoryLimit)
	}
}

// gatewayProcess runs until its standard input closes.
func gatewayProcess(t *testing.T, up string) {
	tg := endpoint(t, up, func(o *EndpointOptions) { o.MaxConns = 1 << 20 })
	g := newGateway(t, Options{Tick: defaultTick, HalfCloseGone: true}, ServerOptions{MaxConnections: 1 << 20},
		func(g *gateway, ctx *fasthttp.RequestCtx) {
			pl := newOnePlan(tg)
			pl.stream = true
			pl.serve(g.p, ctx)
		})
	fmt.Printf("gateway at %s\n", g.addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func rss(t *testing.T, pid int) (kib int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err = strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
