package tee

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/upstream/enclave"
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

// "After the restart every second chat was told that nobody has its key": who comes while
// the enclave is being asked waits for what it says.
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
	for range 5 { // once it has said what it has, it is not asked for each key that is named
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
	if w.Close(); time.Since(began) > 3*time.Second {
		t.Errorf("it took %v to end", time.Since(began))
	}
}
