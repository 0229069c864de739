package tee

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/gpu"
	"farebox/proxy"
)

// watched is an enclave that is followed, behind a host that holds its reports back until
// they are let go.
func watched(t *testing.T, timeout time.Duration) (w *Watch, one *Enclave, e *enclave.Enclave, asked <-chan bool,
	letGo func()) {
	t.Helper()
	e, base, p, j := started(t, enclave.Options{})
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(to)
	hold, came := make(chan bool), make(chan bool, 16)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- true
		select {
		case <-hold:
			behind.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	letGo = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(func() { letGo(); host.Close() })
	px := proxy.New(proxy.Options{Tick: 20 * time.Millisecond})
	t.Cleanup(px.Close)
	end, err := proxy.NewEndpoint(proxy.EndpointOptions{Name: "u", BaseURL: host.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	one = &Enclave{Model: "e2ee-m", Name: "u", Policy: p,
		Upstream: &Upstream{Proxy: px, Endpoint: end, Kind: Dstack, Model: "m", Timeout: timeout}}
	w = &Watch{Judge: j, Every: time.Minute, Enforce: true, Log: zerolog.Nop()}
	w.Over([]*Enclave{one})
	return w, one, e, came, letGo
}

// "After the restart every second chat was told that nobody has its key": requests that
// arrive while the enclave is being asked wait for its answer.
func TestKeysAreWaitedFor(t *testing.T) {
	t.Parallel()
	w, one, e, asked, letGo := watched(t, 10*time.Second)
	w.Begin()
	defer w.Close()
	<-asked
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if w.Learn(one); !w.Has(one, e.Public()) {
				t.Error("its key is not known")
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	letGo()
	all.Wait()
	for range 5 { // once its keys are known, it is not asked for each key that is named
		w.Learn(one)
	}
	if n := e.Calls("/v1/attestation/report"); n > 2 {
		t.Errorf("it was asked %d times", n)
	}
}

// "It took a minute to stop": a host that holds its reports back holds up nothing else.
func TestAHostThatAnswersNothingHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w, _, _, asked, _ := watched(t, 10*time.Second)
	w.Begin()
	<-asked
	began := time.Now()
	if w.Close(); time.Since(began) > 8*time.Second {
		t.Errorf("it took %v to end", time.Since(began))
	}
}

// answering is NVIDIA's service, or an address without an answer.
type answering struct{ away atomic.Bool }

func (s *answering) Judge(context.Context, string, [32]byte, int) error {
	if s.away.Load() {
		return fmt.Errorf("asked: %w", gpu.ErrAway)
	}
	return nil
}

// While NVIDIA's service does not answer, an enclave that was verified is one still, for as
// long as if it did not answer itself. Clients see that it was not judged.
func TestAServiceThatIsAwayTurnsNoVerdictAtOnce(t *testing.T) {
	t.Parallel()
	w, one, e, _, letGo := watched(t, 10*time.Second)
	letGo()
	service, now := &answering{}, time.Now()
	w.Judge.Remote, w.Judge.Now = service, func() time.Time { return now }
	one.Policy.GPU = GPURemote
	service.away.Store(true)
	if w.Look(one); w.Ready(one) || one.Standing().Failed[0] != CheckJudged {
		t.Errorf("one that was never judged is %+v", one.Standing())
	}
	service.away.Store(false)
	if w.Look(one); !w.Ready(one) {
		t.Fatalf("judged, it is %+v", one.Standing())
	}
	service.away.Store(true)
	for now = now.Add(w.Every); now.Sub(one.Standing().At) < stale*w.Every; now = now.Add(w.Every) {
		if w.Look(one); !w.Ready(one) {
			t.Fatalf("unjudged for %s it is %+v", now.Sub(one.Standing().At), one.Standing())
		}
	}
	if w.Look(one); w.Ready(one) || one.Standing().Failed[0] != CheckJudged {
		t.Errorf("unjudged for long it is %+v", one.Standing())
	}
	service.away.Store(false)
	w.Look(one)
	service.away.Store(true)
	e.Tell(enclave.Debug)
	if w.Look(one); w.Ready(one) {
		t.Error("another failed check is ignored")
	}
}
