package routestest

import (
	"bytes"
	"net"
	"strconv"
	"testing"

	"farebox/routes"
)

// Caller gives a function that makes one request to a gateway whose upstream always sends answer,
// head and all. end is the end of the client's answer, where it is not the upstream's whole body.
// Neither the client nor the upstream allocates, so all counted allocations are the gateway's.
func Caller(t testing.TB, config string, answer []byte, path, body string, end []byte,
	capabilities ...routes.Capability) func() {
	t.Helper()
	return CallerWith(t, config, answer, path, "", body, end, capabilities...)
}

// CallerWith is Caller with further lines of the request's head, each with its end.
func CallerWith(t testing.TB, config string, answer []byte, path, head, body string, end []byte,
	capabilities ...routes.Capability) func() {
	t.Helper()
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go echo(c, answer)
		}
	}()
	rig := Start(t, config, up.Addr().String(), capabilities...)
	client, err := net.Dial("tcp", rig.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })

	request := []byte("POST " + routes.Prefix + path +
		" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + rig.Secret +
		"\r\n" + head + "User-Agent: test\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	buf := make([]byte, 1<<20)
	want := answer[bytes.Index(answer, []byte("\r\n\r\n"))+4:]
	call := func() {
		if _, err := client.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			m, err := client.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
			if bytes.HasSuffix(buf[:n], end) || bytes.HasSuffix(buf[:n], want) {
				if !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200 OK")) {
					t.Fatalf("answered %s", buf[:n])
				}
				return
			}
			if bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 4")) || bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 5")) {
				t.Fatalf("answered %s", buf[:n])
			}
		}
	}
	for range 200 {
		call()
	}
	return call
}

// nodeID replaces the id of a blockchain call in answers, which differs in each request.
const nodeID = "0000000000000000"

// fillIDs puts the ids of a request into its answer.
func fillIDs(answer, body []byte) {
	const name = `"id":`
	for at := 0; ; at += len(nodeID) {
		i, k := bytes.Index(answer[at:], []byte(name)), bytes.Index(body, []byte(name))
		if i < 0 || k < 0 || len(answer) < at+i+len(name+nodeID) || len(body) < k+len(name+nodeID) {
			return
		}
		at, body = at+i+len(name), body[k+len(name):]
		copy(answer[at:], body[:len(nodeID)])
	}
}

// echo answers every request on c with the same bytes; a blockchain call under its id.
func echo(c net.Conn, answer []byte) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64<<10)
	headEnd, length := []byte("\r\n\r\n"), []byte("Content-Length: ")
	for n := 0; ; {
		m, err := c.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		at := bytes.Index(buf[:n], headEnd)
		if at < 0 {
			continue
		}
		size := 0
		if i := bytes.Index(buf[:at], length); i >= 0 {
			for _, d := range buf[i+len(length) : at+2] {
				if d < '0' || d > '9' {
					break
				}
				size = size*10 + int(d-'0')
			}
		}
		if n < at+4+size {
			continue
		}
		if bytes.Contains(buf[at:n], []byte("jsonrpc")) {
			fillIDs(answer, buf[at:n])
		}
		n = 0
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
