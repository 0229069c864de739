package rpc

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"farebox/config/fair"
)

// fill spools answers of a size for an owner until one does not fit.
func fill(t *testing.T, r *room, o fair.Owner, size int) (list []*spool) {
	t.Helper()
	for range 100 {
		s := &spool{most: 64 << 10, room: r, owner: o}
		for left := size; left > 0; left -= 16 << 10 {
			if s.write(make([]byte, 16<<10)) != nil {
				s.close()
				return list
			}
		}
		list = append(list, s)
	}
	t.Fatal("one customer may hold any number of answers")
	return nil
}

// "Another customer's batches fill the disk, and mine are refused."
func TestOneCustomersAnswersLeaveSpaceForTheLargest(t *testing.T) {
	const largest = 1 << 20
	r := newRoom(64<<10, largest, t.TempDir())
	held := fill(t, r, fair.Paid(1), largest)
	if len(held) != roomFor-1 {
		t.Errorf("alone a customer may hold %d answers, expected %d", len(held), roomFor-1)
	}
	others := fill(t, r, fair.Paid(2), largest)
	if len(others) != 1 {
		t.Errorf("another one finds space for %d of the largest answers, expected 1", len(others))
	}
	for _, s := range append(held, others...) {
		s.close()
	}
	if n := r.memory.Used() + r.disk.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// taker is a client that reads a Stream's bytes at a steady rate.
type taker struct {
	net.Conn
	rate     int // bytes a second; 0: nothing
	deadline time.Time
}

func (c *taker) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *taker) Write(p []byte) (int, error) {
	took := time.Hour
	if c.rate > 0 {
		took = time.Duration(len(p)) * time.Second / time.Duration(c.rate)
	}
	if at := time.Now().Add(took); at.After(c.deadline) {
		time.Sleep(time.Until(c.deadline))
		return 0, net.ErrClosed
	}
	time.Sleep(took)
	return len(p), nil
}

// "A client that reads drop by drop holds the space of its answer for hours."
func TestClientsThatTakeDropsAreCut(t *testing.T) {
	for _, c := range []struct {
		rate   int
		most   time.Duration // until it is cut
		served bool
	}{
		{rate: 0, most: streamPause},
		{rate: 1 << 10, most: streamPause},
		{rate: minStreamRate / 2, most: 2 * streamPause},
		{rate: minStreamRate * 9 / 8, served: true},
		{rate: 100 << 20, served: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			client := &taker{rate: c.rate}
			s := &Stream{list: pieces{{text: make([]byte, 8<<20)}}, client: client}
			_, err := io.CopyBuffer(client, struct{ io.Reader }{s}, make([]byte, 4<<10))
			if took := time.Since(began); (err == nil) != c.served || !c.served && took > c.most {
				t.Errorf("at %d bytes a second it ends after %v: %v", c.rate, took, err)
			}
		})
	}
}
