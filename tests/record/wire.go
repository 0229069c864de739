package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerLimit is how long an answer may take; the slowest takes about a second.
const answerLimit = 30 * time.Second

// wire is a client that writes requests as bytes and keeps the bytes of answers:
// http.Client would hide the order and the spelling of headers.
type wire struct {
	addr string
	nc   net.Conn
	in   *bufio.Reader
}

// leaveIdle is a client that leaves when it has got all that comes for now, which
// idleWait is ample time for.
const (
	leaveIdle = 1 << 30
	idleWait  = time.Second
)

// answer is an answer on the wire.
type answer struct {
	head   string // as it came, with informational answers before it
	body   []byte // transfer coding removed
	ending string // how it ended, where that is not as the head says
	status int
}

func (w *wire) closeConn() {
	if w.nc != nil {
		_ = w.nc.Close()
		w.nc = nil
	}
}

// send writes a request and reads its answer. With leave > 0 the client leaves
// once so many bytes of the body came, with leave < 0 when left says so, before any.
func (w *wire) send(request []byte, leave int, left func()) (*answer, error) {
	fresh := w.nc == nil
	if fresh {
		nc, err := net.Dial("tcp", w.addr)
		if err != nil {
			return nil, err
		}
		w.nc, w.in = nc, bufio.NewReaderSize(nc, 64<<10)
	}
	_ = w.nc.SetDeadline(time.Now().Add(answerLimit))
	written := make(chan struct{})
	go func() { // an answer may come before the whole request is written
		defer close(written)
		_, _ = w.nc.Write(request)
	}()
	if leave < 0 {
		<-written
		left()
		w.closeConn()
		return &answer{ending: "the client left before an answer"}, nil
	}
	if leave == leaveIdle {
		_ = w.nc.SetReadDeadline(time.Now().Add(idleWait))
	}
	a := &answer{}
	isHead := bytes.HasPrefix(request, []byte("HEAD "))
	err := a.read(w.in, isHead, leave)
	nc := w.nc
	switch {
	case err != nil:
		a.ending = "broke off: " + endingOf(err)
		w.closeConn()
	case leave > 0:
		w.closeConn()
	case strings.EqualFold(headerOf(a.head, "Connection"), "close"):
		_ = nc.SetReadDeadline(time.Now().Add(answerLimit))
		if rest, err := io.ReadAll(w.in); len(rest) > 0 {
			a.ending = fmt.Sprintf("%d bytes behind it: %q", len(rest), rest)
		} else if err != nil {
			a.ending = "not closed: " + endingOf(err)
		}
		w.closeConn()
	}
	if w.nc == nil {
		<-written
	} else {
		select {
		case <-written:
		default: // refused before its body was read
			w.closeConn()
			<-written
		}
	}
	return a, nil
}

func endingOf(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case strings.Contains(err.Error(), "reset"):
		return "reset"
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return "nothing came"
	}
	return err.Error()
}

func (a *answer) read(in *bufio.Reader, isHead bool, leave int) error {
	for {
		head := ""
		for {
			line, err := in.ReadString('\n')
			head += line
			if err != nil {
				a.head += head
				return err
			}
			if strings.TrimRight(line, "\r\n") == "" {
				break
			}
		}
		a.head += head
		_, rest, _ := strings.Cut(head, " ")
		a.status, _ = strconv.Atoi(rest[:min(3, len(rest))])
		if a.status >= 200 {
			a.head = strings.TrimSuffix(a.head, head)
			return a.readBody(in, head, isHead, leave)
		}
	}
}

func (a *answer) readBody(in *bufio.Reader, head string, isHead bool, leave int) error {
	a.head += head
	length := headerOf(head, "Content-Length")
	switch {
	case isHead || a.status == 204 || a.status == 304:
		return nil
	case strings.EqualFold(headerOf(head, "Transfer-Encoding"), "chunked"):
		return a.readChunks(in, leave)
	case length != "":
		n, err := strconv.Atoi(length)
		if err != nil {
			return err
		}
		if leave > 0 {
			n = min(n, leave)
		}
		a.body = make([]byte, n)
		got, err := io.ReadFull(in, a.body)
		a.body = a.body[:got]
		return err
	}
	body, err := io.ReadAll(in)
	a.body = body
	if err == nil {
		a.ending = "ended with the connection"
	}
	return err
}

func (a *answer) readChunks(in *bufio.Reader, leave int) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return fmt.Errorf("no chunk: %q", line)
		}
		if size == 0 {
			break
		}
		at := len(a.body)
		a.body = append(a.body, make([]byte, size)...)
		got, err := io.ReadFull(in, a.body[at:])
		a.body = a.body[:at+got]
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(in, make([]byte, 2)); err != nil {
			return err
		}
		if leave > 0 && len(a.body) >= leave {
			a.body = a.body[:leave] // how much more came with it is chance
			return nil
		}
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.TrimRight(line, "\r\n") == "" {
			return nil
		}
		a.ending += "trailer " + line
	}
}
