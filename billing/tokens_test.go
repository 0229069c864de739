package billing

import (
	"net/netip"
	"testing"
	"time"

	"farebox/billing/store"
	"farebox/config/fair"
)

// "Somebody signed in without pause, and nobody else could."
func TestUsedTokensAreSharedByOwner(t *testing.T) {
	room, now := newTokenRoom(80), time.Now()
	expires := now.Add(5 * time.Minute)
	taken := 0
	for i := range 1000 {
		from := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		if room.take(fair.Unpaid(from), expires, now.UnixNano()) {
			taken++
		}
	}
	if taken == 0 || taken > 70 {
		t.Errorf("unpaid addresses took %d of 80", taken)
	}
	if !room.take(fair.Paid(1), expires, now.UnixNano()) {
		t.Error("a paid account found no space")
	}
	later := expires.Add(time.Minute)
	if !room.take(fair.Paid(2), later.Add(time.Minute), later.UnixNano()) || room.room.Used() != 1 {
		t.Errorf("%d are counted after all but one have expired", room.room.Used())
	}
}

// "Somebody tried thousands of keys from one address, and the first use of mine was refused."
func TestStrangersOfOneAddressLeavePlacesToOthers(t *testing.T) {
	s := newKeyReads()
	greedy, honest := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")
	var leave []func()
	for range keyReadsAtOnce {
		l, err := s.acquire(greedy, &store.Digest{})
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	done := make(chan error, 2*keyReadsWaiting)
	for i := range 2 * keyReadsWaiting {
		go func() {
			l, err := s.acquire(greedy.Next(), &store.Digest{byte(i)})
			if err == nil {
				l()
			}
			done <- err
		}()
	}
	const waiting = keyReadsWaiting - keyReadsAtOnce
	for range 2*keyReadsWaiting - waiting { // the line has no place for them
		if err := <-done; err != ErrManyUnknownKeys {
			t.Fatal(err)
		}
	}
	mine := make(chan error)
	go func() {
		l, err := s.acquire(honest, &store.Digest{})
		mine <- err
		if err == nil {
			l()
		}
	}()
	if err := <-done; err != ErrManyUnknownKeys { // the newest of the greedy address made room
		t.Fatal(err)
	}
	for _, l := range leave {
		l()
		l()
	}
	if err := <-mine; err != nil {
		t.Errorf("another address: %v", err)
	}
	for range waiting - 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
