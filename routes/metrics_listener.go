package routes

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/proxy"
)

// ListenMetrics opens the separate listener for /metrics, unless they are on the
// public one or switched off. Where the usual address is taken, by another
// farebox on this machine, any other of its ports does.
func (g *Gateway) ListenMetrics(cfg *config.Config, failed chan<- error) (at string, stop func(), err error) {
	addr := cfg.Server.MetricsListen
	if addr == config.MetricsOnListen || addr == config.MetricsOff {
		return addr, func() {}, nil
	}
	ln, err := proxy.Listen(addr, "", "")
	if err != nil && addr == config.DefaultMetricsListen {
		taken := err
		if ln, err = proxy.Listen("127.0.0.1:0", "", ""); err == nil {
			g.log.Warn().Err(taken).Str("address", ln.Addr().String()).Msg(
				"the usual address of /metrics is taken, so they are at another one; name one with server.metrics_listen")
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot listen on %s for metrics (server.metrics_listen): %w", addr, err)
	}
	srv := proxy.NewServer(func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) != metricsProbe.path {
			ctx.Error("only "+metricsProbe.path+" is here\n", fasthttp.StatusNotFound)
			return
		}
		g.ServeMetrics(ctx)
	}, proxy.ServerOptions{Name: "farebox", MaxBody: 1 << 10, MaxConnections: 64, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute})
	go func() {
		if err := srv.Serve(ln); err != nil {
			failed <- err
		}
	}()
	return "http://" + ln.Addr().String() + metricsProbe.path, func() { _ = srv.Shutdown() }, nil
}
