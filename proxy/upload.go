package proxy

import (
	"errors"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config/fair"
)

const (
	// smallBody is the largest body that the server reads itself. Larger ones stay in the socket
	// until Uploads.Read, which nobody calls before the route and the key are known.
	smallBody = 8 << 10
	// firstBlock is the first block of a large body, and uploadGrowth the factor of the next once
	// that is full: memory follows the bytes that have arrived, not the announced ones, and a
	// third of the bytes is copied once.
	firstBlock   = 64 << 10
	uploadGrowth = 4
	// maxChunkedBody bounds a body that does not announce its length.
	maxChunkedBody = 8 << 20
	// uploadPatience is how long a body may take before it must have come at minUploadRate bytes
	// a second on average. Slower clients hold room that others need.
	uploadPatience = 5 * time.Second
	minUploadRate  = 16 << 10
)

// Uploads bounds the request bodies of all clients together, which customers share. It counts the
// bytes that have arrived: an announcement costs nothing.
type Uploads struct {
	most int64
	room *fair.Space
}

// unlimited is more than any machine has.
const unlimited = 1 << 60

// NewUploads lets most bytes be there at a time; 0 is no limit.
func NewUploads(most int64) *Uploads {
	if most == 0 {
		most = unlimited
	}
	return &Uploads{most: most, room: fair.NewRoom(most)}
}

// Used is how many bytes are there now.
func (u *Uploads) Used() int64 { return u.room.Used() }

// Sender is the owner of a body, and its largest size.
type Sender struct {
	Most  int
	Owner fair.Owner
}

// upload is the body of the request that a connection is serving. Its goroutine
// alone has it.
type upload struct {
	refused bool // its head was not as expected
	pending bool // it is not read yet
	chunked bool
	length  int // announced
	block   *block
	uploads *Uploads
	from    Sender
	counted int64
}

// header is notified of each request head before the body is read. It cannot refuse,
// so it leaves word for around.
func (u *Uploads) header(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	ctx := requestOf(h)
	w := wireOf(ctx.Conn())
	p := &ClientOf(ctx.Conn()).upload
	p.free()
	here, ok := w.head(headLen(h))
	if !ok || !strict(h) {
		p.refused = true
		h.SetContentLength(0)
		h.SetConnectionClose()
		return c
	}
	n := h.ContentLength()
	if n == 0 || n == -2 {
		return c
	}
	if n > 0 && n <= smallBody {
		w.at += n
		return c
	}
	p.pending, p.chunked, p.length = true, n < 0, n
	if n > 0 {
		here = min(here, n)
	}
	// The server reads the bytes after the head, and so is done with its buffer.
	w.at += here
	h.SetContentLength(here)
	return c
}

// around refuses requests by header's finding, and reads large bodies for handlers that do not do
// so themselves (most above 0).
func (u *Uploads) around(handler fasthttp.RequestHandler, most int,
	refuse func(*fasthttp.RequestCtx, Refusal)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		client := ClientOf(ctx.Conn())
		p := &client.upload
		switch {
		case p.refused:
			ctx.SetStatusCode(BadRequest.Status())
			refuse(ctx, BadRequest)
			ctx.SetConnectionClose()
			return
		case most > 0:
			if why, ok := u.Read(ctx, Sender{Most: most}); !ok {
				ctx.SetStatusCode(why.Status())
				refuse(ctx, why)
				ctx.SetConnectionClose()
				client.lingers.Store(p.pending)
				return
			}
		}
		handler(ctx)
		if p.pending {
			// The next bytes are the body of this request and must not become the next.
			ctx.SetConnectionClose()
			client.lingers.Store(true)
		}
	}
}

// BodyPending says that ctx's request has a large body that was not read yet.
func BodyPending(ctx *fasthttp.RequestCtx) bool { return ClientOf(ctx.Conn()).upload.pending }

// Read reads the body of ctx's request into memory, when that has not happened
// yet; without ok it is the client's to know why not, and the connection ends.
func (u *Uploads) Read(ctx *fasthttp.RequestCtx, from Sender) (why Refusal, ok bool) {
	p := &ClientOf(ctx.Conn()).upload
	if !p.pending {
		if len(ctx.Request.Body()) > from.Most {
			return LargeBody, false
		}
		return 0, true
	}
	if p.length > from.Most {
		return LargeBody, false
	}
	if p.chunked {
		from.Most = min(from.Most, maxChunkedBody)
	}
	p.uploads, p.from = u, from
	if why, ok = p.receive(ctx); !ok {
		p.free()
		// A sender that is too slow, or gone, needs no more.
		p.pending = why != SlowRequest && why != BadRequest
		ctx.SetConnectionClose()
		return why, false
	}
	p.pending = false
	ctx.Request.SetBodyRaw(p.block.b)
	ctx.Request.Header.SetContentLength(len(p.block.b))
	return 0, true
}

// Extend counts n more bytes for ctx's request, which its handler has added to the body,
// up to the request's end.
func (u *Uploads) Extend(ctx *fasthttp.RequestCtx, o fair.Owner, n int64) (why Refusal, ok bool) {
	p := &ClientOf(ctx.Conn()).upload
	p.uploads, p.from.Owner = u, o
	return u.count(p, n)
}

// receive reads until the body is complete.
func (p *upload) receive(ctx *fasthttp.RequestCtx) (why Refusal, ok bool) {
	if why, ok = p.uploads.fits(p, int64(p.length)); !ok {
		return why, false
	}
	begun := ctx.Request.Body()
	if why, ok = p.grow(max(p.first(), len(begun))); !ok {
		return why, false
	}
	p.block.b = append(p.block.b, begun...)

	conn := ctx.Conn()
	w, client := wireOf(conn), ClientOf(conn)
	began, most := time.Now(), client.read.want
	var framing chunks
	for got := len(begun); ; {
		if p.chunked && !p.unchunk(&framing, got, w) {
			return BadRequest, false
		}
		b := p.block.b
		switch {
		case p.chunked && len(b) > p.from.Most:
			return LargeBody, false
		case framing.done || !p.chunked && len(b) == p.length:
			return p.uploads.count(p, int64(len(b))-p.counted)
		case len(b) == cap(b):
			if why, ok = p.grow(p.next()); !ok {
				return why, false
			}
			b = p.block.b
		}
		end := cap(b)
		if !p.chunked {
			end = min(end, p.length)
		}
		limit := began.Add(uploadPatience + time.Duration(len(b))*time.Second/minUploadRate)
		if !most.IsZero() && most.Before(limit) {
			limit = most
		}
		_ = client.SetReadDeadline(limit)
		n, err := conn.Read(b[len(b):end])
		w.at += n
		p.block.b, got = b[:len(b)+n], n
		if err != nil && n == 0 {
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				return SlowRequest, false
			}
			return BadRequest, false
		}
	}
}

// unchunk takes the framing off the last n bytes. The bytes after the end of a chunked body are
// the next request.
func (p *upload) unchunk(framing *chunks, n int, w *wire) bool {
	b := p.block.b
	from := len(b) - n
	k, rest, err := framing.decode(b[from:])
	if len(rest) > 0 {
		w.again = append(append([]byte(nil), rest...), w.again...)
	}
	p.block.b = b[:from+k]
	return err == nil
}

// first is the room that a body gets to begin with, so that the last of its
// blocks has its own length.
func (p *upload) first() int {
	if p.chunked {
		return firstBlock
	}
	n := p.length
	for n > firstBlock {
		n = (n + uploadGrowth - 1) / uploadGrowth
	}
	return n
}

// next is the size of the block after a full one.
func (p *upload) next() int {
	most := p.length
	if p.chunked {
		most = p.from.Most + smallBody
	}
	return min(cap(p.block.b)*uploadGrowth, most)
}

// grow gives the body a block of n bytes when there is room for it.
func (p *upload) grow(n int) (why Refusal, ok bool) {
	if why, ok = p.uploads.count(p, int64(n)-p.counted); !ok {
		return why, false
	}
	b := newBlock(n)
	if p.block != nil {
		b.b = append(b.b, p.block.b...)
		p.block.free()
	}
	p.block = b
	return 0, true
}

// free gives the body's block back. Nobody may look at it any more.
func (p *upload) free() {
	if p.block != nil {
		p.block.free()
	}
	p.drop()
}

// drop gives back the room of a body that somebody may still look at.
func (p *upload) drop() {
	if p.counted != 0 {
		p.uploads.count(p, -p.counted)
	}
	*p = upload{}
}

// count takes n more bytes of room for an upload, or gives them back.
func (u *Uploads) count(p *upload, n int64) (why Refusal, ok bool) {
	if n <= 0 {
		u.room.Give(p.from.Owner, -n)
	} else if !u.room.Grow(p.from.Owner, p.counted, n) {
		return u.full(n), false
	}
	p.counted += n
	return 0, true
}

// fits says whether there is room as it stands for n bytes: a client that would be refused later
// is refused before it sends them. It takes none of it.
func (u *Uploads) fits(p *upload, n int64) (why Refusal, ok bool) {
	if n > 0 && !u.room.Fits(p.from.Owner, n) {
		return u.full(n), false
	}
	return 0, true
}

// full is why n bytes do not fit.
func (u *Uploads) full(n int64) Refusal {
	if u.room.Used()+n > u.most {
		return ServerIsFull
	}
	return SenderIsFull
}

// state is called when a connection goes idle or closes: its response is written.
// A hijacked one goes on writing it elsewhere.
func (u *Uploads) state(c net.Conn, s fasthttp.ConnState) {
	switch s {
	case fasthttp.StateIdle, fasthttp.StateClosed:
		ClientOf(c).upload.free()
	case fasthttp.StateHijacked:
		ClientOf(c).upload.drop()
	}
}
