package proxy

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// defaultReadBuffer caps the head of a client's request. SDKs send about
	// 1 KiB, payment headers need more than 4 KiB. Pages that no head has reached
	// cost no memory.
	defaultReadBuffer = 8 << 10
	// writeBuffer is the buffer for a response head and a first event.
	writeBuffer = 2304 // smallBuffer and framing, in a size class of the allocator
	// keptBody is the largest buffer of the server's own that a connection keeps
	// for the next request and its answer.
	keptBody = 64 << 10
)

// ServerOptions are the limits towards clients.
type ServerOptions struct {
	Name string // Server header; empty: none
	// MaxBody is the largest body of one request; 413 above. 0: the handler reads bodies itself,
	// by Uploads.Read.
	MaxBody        int
	Uploads        *Uploads // request bodies of all clients together; nil: without a limit
	MaxConnections int
	ReadTimeout    time.Duration   // head and body of a request
	IdleTimeout    time.Duration   // between requests
	WriteTimeout   time.Duration   // of responses that are not relayed; 0: 30s
	ReadBuffer     int             // 0: 8 KiB
	Logger         fasthttp.Logger // of the server's own messages, cleaned of requests; nil: none
	// Expect decides on a request that waits for "100 Continue" before it sends
	// its body, of length bytes (-1: chunked): 0 or 100 asks for the body, any
	// other status refuses it. It may write the response's headers and body.
	Expect func(ctx *fasthttp.RequestCtx, length int) (status int)
	// Refuse writes the response to a request that could not be read. Nothing
	// of the request can be relied on but what RequestURI and headers were parsed.
	Refuse func(ctx *fasthttp.RequestCtx, r Refusal)
	// OnPanic is notified of a panic in the handler. It may write the body of the
	// 500 response.
	OnPanic func(ctx *fasthttp.RequestCtx, v any)
}

// Refusal is why a request was not read.
type Refusal uint8

// The refusals.
const (
	BadRequest   Refusal = iota // 400: not HTTP/1.1 as we understand it
	SlowRequest                 // 408: not complete within ReadTimeout
	LargeBody                   // 413: above MaxBody
	LargeHead                   // 431: above ReadBuffer
	ServerIsFull                // 503: all room for bodies is taken
	SenderIsFull                // 429: this sender's part of it is
)

// Status is the HTTP status of a refusal.
func (r Refusal) Status() int {
	return [...]int{400, 408, 413, 431, 503, 429}[r]
}

func (r Refusal) String() string {
	return [...]string{
		"The request is not valid HTTP/1.1.", "The request did not arrive in time.", "The request body is too large.",
		"The request headers are too large.", "The server is holding as many request bodies as it may; please retry.",
		"Too many large requests of this sender are under way; please retry when some of them are answered.",
	}[r]
}

// NewServer builds a server with the settings that proved safe: bodies are
// buffered under limits, nothing is parsed, decompressed or logged of them, and
// a handler's panic costs its connection, not the process.
func NewServer(handler fasthttp.RequestHandler, o ServerOptions) *fasthttp.Server {
	fasthttp.SetBodySizePoolLimit(keptBody, keptBody)
	if o.ReadBuffer <= 0 {
		o.ReadBuffer = defaultReadBuffer
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultClientStall
	}
	if o.Refuse == nil {
		o.Refuse = func(ctx *fasthttp.RequestCtx, r Refusal) { ctx.SetBodyString(r.String() + "\n") }
	}
	if o.Uploads == nil {
		o.Uploads = NewUploads(0)
	}
	s := &fasthttp.Server{
		Handler:      o.Uploads.around(recovering(handler, o.OnPanic), o.MaxBody, o.Refuse),
		ErrorHandler: o.unread,

		Name:                         o.Name,
		NoDefaultServerHeader:        o.Name == "",
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		CloseOnShutdown:              true,
		LazyRequestTime:              true,
		Logger:                       careful{o.Logger},
		Concurrency:                  o.MaxConnections,
		ReadBufferSize:               o.ReadBuffer,
		WriteBufferSize:              writeBuffer,
		MaxRequestBodySize:           o.ReadBuffer, // the rest after a head
		ReadTimeout:                  o.ReadTimeout,
		IdleTimeout:                  o.IdleTimeout,
		WriteTimeout:                 o.WriteTimeout,
		HeaderReceived:               o.Uploads.header,
		ConnState:                    o.Uploads.state,
		ExpectHandler:                o.expect,
	}
	return s
}

// expect answers a request that waits for "100 Continue".
func (o *ServerOptions) expect(ctx *fasthttp.RequestCtx) int {
	p := &ClientOf(ctx.Conn()).upload
	if p.refused {
		o.Refuse(ctx, BadRequest)
		return BadRequest.Status()
	}
	if o.Expect == nil {
		return fasthttp.StatusContinue
	}
	length := ctx.Request.Header.ContentLength()
	if p.pending {
		length = p.length
	}
	status := o.Expect(ctx, length)
	if status == 0 || status == fasthttp.StatusContinue {
		return fasthttp.StatusContinue
	}
	p.pending = false
	return status
}

// unread answers a request that could not be read. The server closes the
// connection afterwards.
func (o *ServerOptions) unread(ctx *fasthttp.RequestCtx, err error) {
	client := ClientOf(ctx.Conn())
	client.upload.free()
	why := refusalOf(err)
	ctx.Response.Reset()
	ctx.SetStatusCode(why.Status())
	o.Refuse(ctx, why)
	ctx.SetConnectionClose()
	client.lingers.Store(why == LargeHead)
}

// recovering answers a panic with 500 and closes the connection: half-done work of the handler
// must not meet a next request. fasthttp recovers nothing itself.
func recovering(handler fasthttp.RequestHandler, onPanic func(*fasthttp.RequestCtx, any)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if v := recover(); v != nil {
				ctx.Response.Reset()
				ctx.SetStatusCode(fasthttp.StatusInternalServerError)
				if onPanic != nil {
					onPanic(ctx, v)
				}
				ctx.SetConnectionClose()
			}
		}()
		handler(ctx)
	}
}

// refusalOf tells the server's read errors apart.
func refusalOf(err error) Refusal {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return LargeBody
	case errors.As(err, &small):
		return LargeHead
	case errors.As(err, &timeout) && timeout.Timeout():
		return SlowRequest
	}
	return BadRequest
}

// careful keeps requests out of the log. The server's errors quote them even
// with SecureErrorLogMessage (a header line without a colon, a first line that
// is none), so that of its messages only the constant part and our own name of
// the error are passed on.
type careful struct{ log fasthttp.Logger }

// Printf is fasthttp.Logger.
func (c careful) Printf(format string, args ...any) {
	if c.log == nil {
		return
	}
	text, _, _ := strings.Cut(format, "%")
	for _, a := range args {
		err, ok := a.(error)
		if !ok {
			continue
		}
		if ended := (*causeError)(nil); errors.As(err, &ended) {
			return // has its own line in the access log
		}
		text = strings.TrimSpace(text) + ": " + refusalOf(err).String()
	}
	c.log.Printf("%s", text)
}
