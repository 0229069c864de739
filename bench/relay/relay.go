// Package relay is the bare fasthttp relay of the comparison: it forwards every request
// with nothing in between, and shows the cost of the library itself. Nothing else may be
// added to it.
package relay

import (
	"fmt"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	bufferSize    = 4 << 10
	maxBody       = 64 << 20
	maxConns      = 65536
	maxIdle       = time.Minute
	serverTimeout = 75 * time.Second
)

// New makes the relay to an upstream's root address such as
// http://127.0.0.1:9000. stream: answers are passed on as they arrive.
func New(upstream string, stream bool) (*fasthttp.Server, error) {
	u, err := url.Parse(upstream)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("cannot relay to %q: write it like http://127.0.0.1:9000", upstream)
	}
	host := u.Host
	client := &fasthttp.HostClient{
		Addr: host, MaxConns: maxConns, MaxIdleConnDuration: maxIdle,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, MaxResponseBodySize: maxBody,
		NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true, DisablePathNormalizing: true,
		StreamResponseBody: stream,
	}
	handler := func(ctx *fasthttp.RequestCtx) {
		ctx.Request.Header.SetHost(host)
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error("bad gateway", fasthttp.StatusBadGateway)
		}
	}
	return &fasthttp.Server{
		Handler: handler, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, MaxRequestBodySize: maxBody,
		IdleTimeout: serverTimeout, NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true,
		DisableHeaderNamesNormalizing: true, Concurrency: maxConns,
		Logger: silent{},
	}, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}
