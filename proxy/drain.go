package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"
)

// drainGrace is how long requests that were cut may take to say so to their
// clients and settle.
const drainGrace = 5 * time.Second

// farewell is how long clients that keep connections may come back on them.
const farewell = 250 * time.Millisecond

// Farewell comes before Drain, while answers say that their connection ends. It
// waits for delay, and a moment at least while connections are open: one that
// was closed when its client's next request was on its way cost that request.
func Farewell(ctx context.Context, s *fasthttp.Server, delay time.Duration) {
	enough := time.After(max(delay, farewell))
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for delay > 0 || s.GetOpenConnectionsCount() > 0 {
		select {
		case <-enough:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// Drain ends the service: no new connections, idle ones closed, requests under way may finish
// until ctx is done. The others are cut then with Cause Shutdown and settle within drainGrace.
// The error says how many were cut.
func Drain(ctx context.Context, s *fasthttp.Server, p *Proxy) error {
	// The server forgets that it is stopping when its own context ends, so it
	// gets one that outlives the cut: connections must not serve new requests.
	hard, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.ShutdownWithContext(hard) }()

	cut := 0
	idle := time.NewTicker(20 * time.Millisecond)
	defer idle.Stop()
	limit := ctx.Done()
	var grace <-chan time.Time
	serving := true
	var err error
	for serving || p.Active() > 0 { // HTTP/1.0 streams outlive their connection's service
		select {
		case err = <-stopped:
			serving, stopped = false, nil
		case <-idle.C:
		case <-limit:
			limit = nil
			cut = p.watch.shutdown()
			grace = time.After(drainGrace)
		case <-grace:
			return fmt.Errorf("cannot end all requests: %d were cut, %d did not end within %s", cut, p.Active(),
				drainGrace)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot close the listeners: %w", err)
	}
	if cut > 0 {
		return fmt.Errorf("%d requests were cut at the drain limit", cut)
	}
	return nil
}
