package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config/fair"
)

// "Somebody has a hundred slow pages fetched, and my fetch runs out of time in the queue."
func TestAnHonestFetchWaitsForOneRunningFetch(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"places in all":    {Allow: loopback, Parallel: 2, Limit: 600 * time.Millisecond},
		"places at a host": {Allow: loopback, PerHost: 2, Limit: 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var slow atomic.Int64
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/honest" {
					_, _ = io.WriteString(w, "ok")
					return
				}
				slow.Add(1)
				<-r.Context().Done()
			})
			c := New(o)
			ctx, stop := context.WithCancel(fair.With(t.Context(), fair.Paid(1)))
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			for range 20 {
				all.Go(func() {
					_, err := c.Do(ctx, Ask{URL: u, Most: 9, Limit: 400 * time.Millisecond})
					if !errors.Is(err, context.Canceled) && reason(err) != "slow" && reason(err) != "busy" {
						t.Error(err)
					}
				})
			}
			for slow.Load() < 2 {
				time.Sleep(time.Millisecond)
			}
			// The running ones end after 400 ms: longer than the honest one may take itself.
			limited, cancel := fair.WithLimit(fair.With(t.Context(), fair.Paid(2)), 300*time.Millisecond)
			defer cancel()
			a, err := c.Do(limited, Ask{URL: u + "/honest", Most: 9, Limit: 300 * time.Millisecond})
			if err != nil || string(a.Body) != "ok" {
				t.Errorf("the honest fetch: %v", err)
			}
			if n := slow.Load(); n > 4 {
				t.Errorf("%d slow fetches began before the honest one ended, expected at most the 2 that ran and 2 more", n)
			}
		})
	}
}
