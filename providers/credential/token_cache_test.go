package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"farebox/proxy"
)

// endpointOf is a source that counts its calls and answers as configured.
type endpointOf struct {
	mu    sync.Mutex
	calls int
	life  time.Duration
	fail  error
	value string // empty: a new one each time
	wait  time.Duration
}

func (e *endpointOf) get(ctx context.Context) (fetchedToken, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.wait > 0 {
		select {
		case <-time.After(e.wait):
		case <-ctx.Done():
			return fetchedToken{}, ctx.Err()
		}
	}
	if e.fail != nil {
		return fetchedToken{}, e.fail
	}
	value := e.value
	if value == "" {
		value = fmt.Sprint("token-", e.calls)
	}
	return fetchedToken{value: value, expires: time.Now().Add(e.life)}, nil
}

func (e *endpointOf) next(t fetchedToken, now time.Time) time.Duration { return ahead(t, now) }

func (e *endpointOf) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *endpointOf) asked() (n int) {
	e.set(func() { n = e.calls })
	return n
}

// journalOf is a log that is read while others write. A bubble without a writer now does
// not order earlier reads before later writes.
type journalOf struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journalOf) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journalOf) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func bearerSpec() Spec {
	return Spec{Kind: ServiceAccount, Upstream: "up", Header: "Authorization", Prefix: "Bearer "}
}

// shows is the token that a request shows now.
func shows(k *tokenCache) (string, *proxy.Unproven) {
	q := &proxy.Unproven{}
	line, err := k.AppendFields(nil, q)
	if err != nil {
		return "error: " + err.Error(), q
	}
	value, _ := strings.CutPrefix(strings.TrimSpace(string(line)), "Authorization: Bearer ")
	return value, q
}

func TestTokensAreRenewedAheadOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &endpointOf{life: time.Hour}
		k := newTokenCache(bearerSpec(), from, zerolog.Nop())
		defer k.Close()
		if got, _ := shows(k); got != "token-1" {
			t.Fatalf("first: %s", got)
		}
		time.Sleep(41 * time.Minute)
		if got, _ := shows(k); got != "token-1" {
			t.Errorf("renewed long before its time: %s", got)
		}
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		if got, _ := shows(k); got != "token-2" {
			t.Errorf("eleven minutes before the end: %s", got)
		}
		for range 100 {
			time.Sleep(10 * time.Minute)
			if got, _ := shows(k); strings.HasPrefix(got, "error") {
				t.Fatal(got)
			}
		}
	})
}

// A token endpoint may be away for minutes without an effect until the last token has
// expired; then requests fail with that reason and are not sent.
func TestATokenIsShownUntilItsEndWhenRenewingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journalOf
		from := &endpointOf{life: time.Hour}
		k := newTokenCache(bearerSpec(), from, zerolog.New(&log))
		defer k.Close()
		synctest.Wait()
		from.set(func() { from.fail = errors.New("the token endpoint refuses (500)") })
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if got, _ := shows(k); got != "token-1" {
			t.Errorf("while it holds: %s", got)
		}
		if !strings.Contains(log.String(), "the last one is still shown") {
			t.Errorf("nothing was logged: %s", log.String())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got, _ := shows(k); got != "error: the token has expired: the token endpoint refuses (500)" {
			t.Errorf("after its end: %s", got)
		}
		if n := from.asked(); n < 20 || n > 150 {
			t.Errorf("%d tries in 20 minutes", n)
		}
		from.set(func() { from.fail = nil })
		time.Sleep(mostRetry * 2)
		synctest.Wait()
		if got, _ := shows(k); strings.HasPrefix(got, "error") {
			t.Errorf("when it is back: %s", got)
		}
		if strings.Contains(log.String(), "token-") {
			t.Errorf("a token in the log: %s", log.String())
		}
	})
}

func TestTheFirstRequestWaitsForTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTokenCache(bearerSpec(), &endpointOf{life: time.Hour, wait: 3 * time.Second}, zerolog.Nop())
		defer k.Close()
		began := time.Now()
		if got, _ := shows(k); got != "token-1" || time.Since(began) != 3*time.Second {
			t.Errorf("%s after %s", got, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		k := newTokenCache(bearerSpec(), &endpointOf{life: time.Hour, wait: time.Minute}, zerolog.Nop())
		defer k.Close()
		began := time.Now()
		if got, _ := shows(k); !strings.HasPrefix(got, "error") || time.Since(began) != firstWait {
			t.Errorf("%s after %s", got, time.Since(began))
		}
	})
}

// A thousand requests that met one refusal ask for one token.
func TestARefusedTokenIsRenewedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &endpointOf{life: time.Hour}
		k := newTokenCache(bearerSpec(), from, zerolog.Nop())
		defer k.Close()
		_, q := shows(k)
		from.set(func() { from.wait = time.Second })
		var again atomic.Int32
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if k.Refused(q, 401, nil) {
					again.Add(1)
				}
			})
		}
		wg.Wait()
		if n := from.asked(); n != 2 || again.Load() != 1000 {
			t.Errorf("%d questions for tokens, %d requests sent again", n, again.Load())
		}
		if got, _ := shows(k); got != "token-2" {
			t.Errorf("shown: %s", got)
		}
		if k.Refused(q, 403, nil) {
			t.Error("a 403 is about rights")
		}
	})
}

// The token endpoint gives the same refused token again and again: it is not
// asked with every request, and requests are not sent twice for nothing.
func TestATokenThatStaysRefusedIsNotAskedForAllDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &endpointOf{life: time.Hour, value: "same"}
		k := newTokenCache(bearerSpec(), from, zerolog.Nop())
		defer k.Close()
		_, q := shows(k)
		for range 100 {
			if k.Refused(q, 401, nil) {
				t.Fatal("the same token is to be sent again")
			}
		}
		if n := from.asked(); n != 2 {
			t.Errorf("%d questions", n)
		}
		time.Sleep(refusedPause)
		k.Refused(q, 401, nil)
		if n := from.asked(); n != 3 {
			t.Errorf("%d questions later", n)
		}
	})
}

func TestTokensThatNoHeaderCanCarryAreRefused(t *testing.T) {
	for _, value := range []string{"a b", "a\r\nX: y", "a\x00", strings.Repeat("x", maxToken+1), "é"} {
		synctest.Test(t, func(t *testing.T) {
			k := newTokenCache(bearerSpec(), &endpointOf{life: time.Hour, value: value}, zerolog.Nop())
			defer k.Close()
			if got, _ := shows(k); !strings.HasPrefix(got, "error: there is no token yet") {
				t.Errorf("%.20q: %s", value, got)
			}
		})
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		if d := backoff(failures); d < firstRetry/2 || d > mostRetry*3/2 {
			t.Errorf("%d: %s", failures, d)
		}
	}
}
