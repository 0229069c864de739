package run

import (
	"net"

	"farebox/billing"
	"farebox/routes/operator"
)

// listenOperators opens the operators' socket.
func (p *process) listenOperators() (err error) {
	if p.operators, err = operator.Listen(p.cfg, p.inherited); p.operators != nil {
		p.onClose(func() { _ = p.operators.Close() })
	}
	return err
}

// serveOperators serves the operators' API until it closes, before the ledger does.
func (p *process) serveOperators() {
	if p.operators == nil {
		return
	}
	p.desk = operator.Serve(p.operators, operator.Options{Ledger: p.ledger, Config: p.cfg, Log: p.log, Version: p.Version,
		Failed: p.failed, Token: func(string) (billing.Actor, error) { return billing.Actor{}, operator.ErrNoToken }})
	p.onClose(p.desk.Close)
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
