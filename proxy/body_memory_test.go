package proxy

import (
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// A request body is in a buffer of about its own length, with a third more allocated on
// the way, also when its client waits for "100 Continue". It arrives unchanged, and the
// connection's next request does not see it.
func TestBodiesAreInBuffersOfTheirLength(t *testing.T) {
	var room, length int
	var sum uint64
	g := newGateway(t, Options{}, ServerOptions{MaxBody: 40 << 20, Uploads: NewUploads(1 << 30)},
		func(_ *gateway, ctx *fasthttp.RequestCtx) {
			body := ctx.Request.Body()
			room, length, sum = cap(body), len(body), 0
			for i := 0; i < len(body); i += 997 {
				sum = sum*31 + uint64(body[i])
			}
		})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	for _, size := range []int{100, 200 << 10, 256 << 10, 256<<10 + 1, 1<<20 + 1, 33<<20 + 77, 10, 33<<20 + 77} {
		for _, expects := range []bool{false, true} {
			text := strings.Repeat("abcdefg", size/7+1)[:size]
			req, err := http.NewRequest(http.MethodPost, "http://"+g.addr+"/", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if expects {
				req.Header.Set("Expect", "100-continue")
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			runtime.ReadMemStats(&after)
			want := uint64(0)
			for i := 0; i < len(text); i += 997 {
				want = want*31 + uint64(text[i])
			}
			if res.StatusCode != 200 || length != size || sum != want {
				t.Fatalf("%d bytes: answered %d for %d", size, res.StatusCode, length)
			}
			if size >= minBlock && room > size+size/8 {
				t.Errorf("%d bytes are in a buffer of %d", size, room)
			}
			if took := after.TotalAlloc - before.TotalAlloc; size >= 1<<20 && took > uint64(size)*3/2+1<<20 {
				t.Errorf("for %d bytes %d were allocated", size, took)
			}
			if size < 1<<10 && room > keptBody*2 {
				t.Errorf("%d bytes are in the buffer of another request, %s bytes", size, strconv.Itoa(room))
			}
		}
	}
}
