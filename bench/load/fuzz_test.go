package load

import (
	"bytes"
	"io"
	"net/http/httputil"
	"testing"
)

// The client removes the transfer coding as the standard library does, however
// the bytes are cut into reads.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), 1)
	f.Add([]byte("A;x=y\r\n0123456789\r\n1\r\n.\r\n0\r\n\r\n"), 3)
	f.Add([]byte("0\r\n\r\n"), 100)
	f.Add([]byte("fffffffffffff\r\n"), 2)
	f.Fuzz(func(t *testing.T, wire []byte, step int) {
		c := &Conn{nc: &script{data: wire, step: max(1, step%64)}, buf: make([]byte, 64), chunked: true}
		var got []byte
		err := c.body(func(p []byte) error {
			got = append(got, p...)
			return nil
		})
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
		if err == nil && wantErr == nil && !bytes.Equal(got, want) {
			t.Errorf("%q: %q, the standard library reads %q", wire, got, want)
		}
	})
}
