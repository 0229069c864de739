package operations

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// nginx sends a POST once. A node that ended reset the connections that waited in the queue
// of its socket, and nginx answered their clients 502 instead of asking the next node.
func TestConnectionsAreServedOrRefusedWhenTheListenerCloses(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"server: { drain_delay: 300ms }\n")
	g.NewAccount("a", "10")
	body := rig.Ask("sim-chat", "[[sim tokens=3]] Go", "")
	request := fmt.Sprintf("POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", g.Key("a"), len(body), body)
	var served, cut atomic.Int64
	for range 3 {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					c, err := net.DialTimeout("tcp", g.Addr, rig.CallLimit)
					if err != nil {
						return // refused: no bytes were sent
					}
					_ = c.SetDeadline(time.Now().Add(rig.CallLimit))
					_, err = strings.NewReader(request).WriteTo(c)
					var res *http.Response
					if err == nil {
						res, err = http.ReadResponse(bufio.NewReader(c), nil)
					}
					_ = c.Close()
					if err != nil || res.StatusCode != 200 {
						cut.Add(1)
						t.Errorf("a request on an open connection: %v", err)
						return
					}
					served.Add(1)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		g.Signal(syscall.SIGTERM)
		wg.Wait()
		<-g.Done
		if g.Exit != nil {
			t.Errorf("it ended with %v", g.Exit)
		}
		g.Start()
	}
	t.Logf("%d requests were served, %d were cut", served.Load(), cut.Load())
	g.CLI("verify")
}
