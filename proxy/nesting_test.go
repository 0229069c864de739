package proxy

import (
	"bytes"
	"testing"

	"github.com/valyala/fasthttp"

	"farebox/proxy/scan"
)

// Eight million open brackets in a request killed a process with a recursive validator.
// Here they are an ordinary error, and the server goes on.
func TestABodyOfBracketsKillsNothing(t *testing.T) {
	shape := scan.NewShape(scan.Member{Name: "model"})
	g := newGateway(t, Options{}, ServerOptions{}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
		var d scan.Document
		if err := d.Skim(ctx.PostBody(), shape); err != nil {
			ctx.SetStatusCode(400)
		}
	})
	for _, body := range [][]byte{
		bytes.Repeat([]byte("["), 8<<20),
		append([]byte(`{"a":`), bytes.Repeat([]byte("["), 8<<20)...),
		bytes.Repeat([]byte(`{"a":`), 2<<20),
	} {
		if resp, _, err := g.ask(string(body)); err != nil || resp.StatusCode != 400 {
			t.Fatalf("%v %v", resp, err)
		}
	}
	if resp, _, err := g.ask(`{"model":"m"}`); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
}
