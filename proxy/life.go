package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/proxy/listen"
)

// Life is a server's from its first request to its last.
type Life struct {
	Listener                 net.Listener
	Further                  []net.Listener // that a successor gets, too
	Server                   *fasthttp.Server
	Proxy                    *Proxy
	Log                      zerolog.Logger
	DrainDelay, DrainTimeout time.Duration
	Failed                   <-chan error // errors of servers that cannot go on
	Reload                   func()       // at SIGHUP; nil: there is nothing to reload
	Draining                 func()       // is called before new work goes elsewhere
	Leaving                  func()       // is called before clients are told to go
}

// Signals are those that Run listens to; from here on none is lost.
func Signals() <-chan os.Signal {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if listen.HandOverSignal != nil {
		signal.Notify(signals, listen.HandOverSignal)
	}
	return signals
}

// Run serves until SIGTERM or SIGINT, until a successor took the listening socket,
// or until that fails, which is its error; then it drains the server.
func (l *Life) Run(signals <-chan os.Signal) (err error) {
	var took <-chan error // by a successor; nil if absent
	handedOver := false
	for stop := false; !stop; {
		select {
		case refusal := <-took:
			if took = nil; refusal != nil {
				l.Log.Error().Err(refusal).Msg("no hand-over; going on as before")
				break
			}
			l.Log.Info().Dur("limit_ms", l.DrainTimeout).Msg("handed over: streams may finish")
			handedOver, stop = true, true
		case err = <-l.Failed:
			err = fmt.Errorf("cannot go on serving: %w", err)
			stop = true
		case s := <-signals:
			if s == listen.HandOverSignal {
				if took == nil {
					took = l.handOver()
				}
			} else if s != syscall.SIGHUP {
				l.Log.Info().Str("signal", s.String()).Dur("limit_ms", l.DrainTimeout).
					Msg("draining: no new work, streams may finish")
				stop = true
			} else if l.Reload != nil {
				l.Reload()
			} else {
				l.Log.Warn().Msg("SIGHUP: there is no config file to reload")
			}
		}
	}
	delay := l.DrainDelay
	if handedOver || err != nil {
		delay = 0
	}
	if !handedOver { // the successor welcomes new work
		l.Draining()
	}
	ctx, cancel := context.WithTimeout(context.Background(), delay+l.DrainTimeout)
	defer cancel()
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP && s != listen.HandOverSignal {
				l.Log.Warn().Str("signal", s.String()).Msg("a second signal: open requests are cut off now")
				cancel()
				return
			}
		}
	}()
	l.Leaving()
	Farewell(ctx, l.Server, delay)
	// A socket that another process may have, or systemd keeps, stays open.
	if ln, ok := l.Listener.(clientListener); ok && delay > 0 && took == nil && ln.o.Inherited == nil {
		listen.Last(ln.Listener)
	}
	if cut := Drain(ctx, l.Server, l.Proxy); cut != nil {
		l.Log.Warn().Err(cut).Msg("some requests were cut at the drain limit")
	}
	return err
}

// handOver starts a successor on the same socket; nil: it could not be started.
func (l *Life) handOver() <-chan error {
	ln, ok := l.Listener.(clientListener)
	if !ok {
		l.Log.Error().Err(errors.New("this is not a socket of clients")).
			Msg("cannot start a successor; going on as before")
		return nil
	}
	var further []net.Listener
	for _, one := range l.Further {
		if c, ok := one.(clientListener); ok {
			one = c.Listener
		}
		further = append(further, one)
	}
	pid, took, err := listen.HandOver(ln.Listener, further...)
	if err != nil {
		l.Log.Error().Err(err).Msg("cannot start a successor; going on as before")
		return nil
	}
	l.Log.Info().Int("pid", pid).Msg("a successor was started")
	return took
}
