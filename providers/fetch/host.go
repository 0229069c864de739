package fetch

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"farebox/config/fair"
)

// perHost lets a host have few requests at once, those that redirects lead to
// among them: clients must not flood other hosts through us.
type perHost struct {
	next http.RoundTripper
	most int
	wait time.Duration // for a turn

	mu    sync.Mutex
	hosts map[string]*queue // only those with requests
}

// queue holds the turns at one host.
type queue struct {
	turns *fair.Turns
	users int // requests that run or wait; under perHost.mu
}

// RoundTrip waits for a turn, which ends with the body.
func (p *perHost) RoundTrip(r *http.Request) (*http.Response, error) {
	host := strings.ToLower(strings.TrimSuffix(r.URL.Hostname(), "."))
	q := p.acquire(host)
	place, err := take(r.Context(), q.turns, p.wait)
	if err != nil {
		p.release(host, q)
		return nil, err
	}
	var once sync.Once
	done := func() {
		once.Do(func() {
			place.Done()
			p.release(host, q)
		})
	}
	resp, err := p.next.RoundTrip(r)
	if err != nil {
		done()
		return nil, err
	}
	resp.Body = &seated{resp.Body, done}
	return resp, nil
}

func (p *perHost) acquire(host string) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.hosts[host]
	if q == nil {
		q = &queue{turns: fair.NewTurns(p.most, waiters*p.most)}
		p.hosts[host] = q
	}
	q.users++
	return q
}

func (p *perHost) release(host string, q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(p.hosts, host)
	}
}

// seated is a body that holds a turn.
type seated struct {
	io.ReadCloser
	done func()
}

func (s *seated) Close() error {
	defer s.done()
	return s.ReadCloser.Close()
}
