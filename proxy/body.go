package proxy

import (
	"strings"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// presized is the smallest request body that gets a buffer of its own length.
// Smaller ones come from the server's pool.
const presized = bodyPoolLimit + 1

// presize gives the request that h is the head of a buffer for n bytes of body.
// The server would take one of the next power of two, 64 MB for a picture of 24
// MB in base64, and clear it, so that a head alone could make it touch as much
// memory as it announces. The pages of this buffer are touched when bytes come.
//
// The server calls HeaderReceived with the head that stands inside its request,
// and with nothing that leads to the request itself.
func presize(h *fasthttp.RequestHeader, n int) {
	r := (*fasthttp.Request)(unsafe.Add(unsafe.Pointer(h), -int(unsafe.Offsetof(fasthttp.Request{}.Header))))
	r.SwapBody(untouched(n))
}

// untouched is an empty slice with room for n bytes that nobody has cleared.
func untouched(n int) []byte {
	var b strings.Builder // the one door of the standard library to such memory
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)[:0]
}
