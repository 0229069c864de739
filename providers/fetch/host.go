package fetch

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// perHost lets a host have few requests at once, those that redirects lead to
// among them: whoever sends clients here must not flood others through us.
type perHost struct {
	next http.RoundTripper
	most int

	mu    sync.Mutex
	hosts map[string]*queue // only those with requests
}

// queue is the seats of one host.
type queue struct {
	seats chan struct{}
	users int // who sit or wait; under perHost.mu
}

// RoundTrip waits for a seat, which the end of the body gives back.
func (p *perHost) RoundTrip(r *http.Request) (*http.Response, error) {
	host := strings.ToLower(strings.TrimSuffix(r.URL.Hostname(), "."))
	q := p.enter(host)
	select {
	case q.seats <- struct{}{}:
	case <-r.Context().Done():
		p.leave(host, q)
		return nil, &Error{Reason: Busy}
	}
	var once sync.Once
	done := func() {
		once.Do(func() {
			<-q.seats
			p.leave(host, q)
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

func (p *perHost) enter(host string) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.hosts[host]
	if q == nil {
		q = &queue{seats: make(chan struct{}, p.most)}
		p.hosts[host] = q
	}
	q.users++
	return q
}

func (p *perHost) leave(host string, q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(p.hosts, host)
	}
}

// seated is a body that holds a seat.
type seated struct {
	io.ReadCloser
	done func()
}

func (s *seated) Close() error {
	defer s.done()
	return s.ReadCloser.Close()
}
