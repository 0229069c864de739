package proxy

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// clientPair is the server's and the client's end of a connection of Listen.
func clientPair(t *testing.T) (server *ClientConn, client net.Conn) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), c.Close() })
	return ClientOf(c), client
}

// waited reads until the deadline and returns the time that it took.
func waited(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d, %v", n, err)
	}
	return time.Since(began)
}

func readByte(t *testing.T, c, from net.Conn) {
	t.Helper()
	if _, err := from.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestReadDeadlineThatWasPutOffDoesNotEndTheRead(t *testing.T) {
	t.Parallel()
	c, client := clientPair(t)
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Millisecond))
	readByte(t, c, client)
	_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if took := waited(t, c); took < 290*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
}

func TestReadDeadlineThatCameForwardEndsTheRead(t *testing.T) {
	t.Parallel()
	c, client := clientPair(t)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	readByte(t, c, client)
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if took := waited(t, c); took > 5*time.Second {
		t.Errorf("ended after %v", took)
	}
	_ = c.SetReadDeadline(time.Time{})
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = client.Write([]byte("y"))
	}()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
}

func TestExpiredWriteEndsAndTheNextMayGoOn(t *testing.T) {
	t.Parallel()
	c, client := clientPair(t)
	_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
	go func() {
		time.Sleep(50 * time.Millisecond)
		_ = c.SetWriteDeadline(past)
	}()
	began := time.Now()
	big := make([]byte, 64<<20)
	if _, err := c.Write(big); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a write to a client that does not read: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("expired after %v", took)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write after the watcher's word: %v", err)
	}
	go func() {
		buf := make([]byte, 1<<20)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
		}
	}()
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if n, err := c.Write(big); n != len(big) || err != nil {
		t.Errorf("with a new deadline: %d, %v", n, err)
	}
}

func TestSlowWriteOutlivesADeadlineThatWasPutOff(t *testing.T) {
	t.Parallel()
	c, client := clientPair(t)
	_ = c.SetWriteDeadline(time.Now().Add(80 * time.Millisecond))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	got := make(chan int, 1)
	go func() {
		time.Sleep(300 * time.Millisecond)
		sum, buf := 0, make([]byte, 1<<20)
		for sum < 32<<20+1 {
			n, err := client.Read(buf)
			if sum += n; err != nil {
				break
			}
		}
		got <- sum
	}()
	if n, err := c.Write(make([]byte, 32<<20)); n != 32<<20 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n := <-got; n != 32<<20+1 {
		t.Errorf("%d bytes arrived", n)
	}
}
