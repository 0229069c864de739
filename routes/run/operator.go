package run

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"farebox/config"
	"farebox/routes/operator"
)

// listenOperators opens the operators' socket.
func (p *process) listenOperators() (err error) {
	if p.operators, err = operator.Listen(p.cfg, p.inherited); p.operators != nil {
		p.onClose(func() { _ = p.operators.Close() })
	}
	return err
}

// serveOperators serves the operators' API, if they connect anywhere, and the questions of other nodes. Both end before
// the ledger does.
func (p *process) serveOperators() {
	api := operator.New(operator.Options{Ledger: p.ledger, Gateway: p.gateway, Log: p.log, Reload: p.watch.reload,
		Failed: p.failed})
	if p.operators != nil {
		api.Serve(p.operators)
	}
	p.onClose(api.Close)
}

// further are the sockets that a successor gets beside that of clients.
func (p *process) further() []net.Listener {
	if p.operators == nil {
		return nil
	}
	return []net.Listener{p.operators}
}

// operatorsAt is where operators connect, for the banner.
func (p *process) operatorsAt() string {
	if p.operators == nil {
		return ""
	}
	return operator.URL(p.operators.Addr(), p.cfg)
}

// reloads are those that operators order.
type reloads struct {
	now  atomic.Pointer[config.Watcher] // nil: there is no file
	one  sync.Mutex
	mu   sync.Mutex
	said string // by the last reload
	err  error
}

// note remembers the outcome of a reload, and passes it on.
func (r *reloads) note(next func(string, error)) func(string, error) {
	return func(said string, err error) {
		r.mu.Lock()
		r.said, r.err = said, err
		r.mu.Unlock()
		next(said, err)
	}
}

// reload reads the config file now.
func (r *reloads) reload() (said string, err error) {
	w := r.now.Load()
	if w == nil {
		return "", errors.New("there is no config file to reload")
	}
	r.one.Lock()
	defer r.one.Unlock()
	w.Reload()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said, r.err
}
