package rpc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/bench/upstream"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// The cost of blockchain calls in processor time of the gateway, beside the bare fasthttp relay:
//
//	go test -tags nodynamic -run '^$' -bench Crypto -benchtime 30000x .

// cpuOf is the processor time a process has used, user and system.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("there is no /proc here")
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// drive sends a body again and again over some connections.
func drive(b *testing.B, url, key string, body []byte, pid int) {
	b.Helper()
	send := func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		client := &fasthttp.Client{MaxConnsPerHost: 64}
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				req.SetRequestURI(url)
				req.Header.SetMethod("POST")
				req.Header.SetContentType("application/json")
				req.Header.Set("Authorization", "Bearer "+key)
				req.SetBodyRaw(body)
				for left.Add(-1) >= 0 {
					if err := client.Do(req, res); err != nil || res.StatusCode() != 200 {
						b.Errorf("%v, status %d: %.200s", err, res.StatusCode(), res.Body())
						return
					}
				}
			})
		}
		all.Wait()
	}
	send(2000)
	before := cpuOf(b, pid)
	b.ResetTimer()
	send(b.N)
	b.StopTimer()
	b.ReportMetric(float64(cpuOf(b, pid)-before)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
}

func BenchmarkCrypto(b *testing.B) {
	sim := rig.StartUpstream(b, upstream.Options{})
	node := strings.TrimSuffix(sim.URL, "/v1") + "/rpc/evm"
	g := rig.StartGateway(b, strings.Replace(fmt.Sprintf(realChain, node), ", sample_above: 0", "", 1))
	g.NewAccount("rich", "100000")
	key := g.Key("rich")
	url := g.URL + "/crypto/rpc/ethereum-sepolia"
	single := []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x742d35Cc6634C0532925a3b844Bc454e4438f44e","latest"]}`)
	calls := make([]string, 100)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_getBalance","params":["0x742d35Cc6634C0532925a3b844Bc454e4438f44e","latest"]}`, i+1)
	}
	batch := []byte("[" + strings.Join(calls, ",") + "]")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr := rig.FreeAddr(b)
	relay := exec.CommandContext(ctx, rig.Binary(b), "bench", "relay", "--listen", addr, "--upstream",
		strings.TrimSuffix(sim.URL, "/v1"))
	if err := relay.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { cancel(); _ = relay.Wait() }()
	for end := time.Now().Add(rig.StartLimit); ; time.Sleep(10 * time.Millisecond) {
		if res, err := http.Get("http://" + addr + "/_sim/stats"); err == nil {
			_ = res.Body.Close()
			break
		} else if time.Now().After(end) {
			b.Fatal(err)
		}
	}
	for name, body := range map[string][]byte{"single": single, "batch100": batch} {
		b.Run(name+"/farebox", func(b *testing.B) { drive(b, url, key, body, g.PID()) })
		b.Run(name+"/relay", func(b *testing.B) { drive(b, "http://"+addr+"/rpc/evm", key, body, relay.Process.Pid) })
	}
}

// The cost of a large answer: time to its first byte, and memory of the gateway.
func BenchmarkCryptoLarge(b *testing.B) {
	n := node.New(node.Options{})
	url, err := n.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	n.Fault(node.Faults{Large: 100 << 20})
	g := rig.StartGateway(b, fmt.Sprintf(realChain, url))
	g.NewAccount("rich", "100")
	key := g.Key("rich")
	fetch := func() (first time.Duration) {
		began := time.Now()
		res := g.Open("POST", "/crypto/rpc/ethereum-sepolia", key,
			`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[]}`)
		defer func() { _ = res.Body.Close() }()
		one := make([]byte, 1)
		if _, err := io.ReadFull(res.Body, one); err != nil {
			b.Fatal(err)
		}
		first = time.Since(began)
		if got, err := io.Copy(io.Discard, res.Body); err != nil || got < 100<<20 {
			b.Fatalf("%d bytes, %v", got, err)
		}
		return first
	}
	g.Post("/crypto/rpc/ethereum-sepolia", key, chainID)
	before := memoryOf(b, g.PID(), "VmRSS")
	cpu := cpuOf(b, g.PID())
	var sum, worst time.Duration
	b.ResetTimer()
	for range b.N {
		first := fetch()
		sum, worst = sum+first, max(worst, first)
	}
	b.StopTimer()
	b.ReportMetric(float64(memoryOf(b, g.PID(), "VmHWM")-before)/1024, "MB-growth")
	b.ReportMetric(float64(sum.Microseconds())/1000/float64(b.N), "first-ms")
	b.ReportMetric(float64(worst.Microseconds())/1000, "first-worst-ms")
	b.ReportMetric(float64((cpuOf(b, g.PID())-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// memoryOf is a line of /proc/PID/status, KB.
func memoryOf(b *testing.B, pid int, line string) int {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("there is no /proc here")
	}
	_, after, _ := strings.Cut(string(data), line+":")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kb
}
