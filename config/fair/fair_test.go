package fair

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// run does some work that takes time, and records its end.
func run(t *testing.T, turns *Turns, o Owner, took time.Duration, began time.Time) (at time.Duration, err error) {
	t.Helper()
	p, err := turns.Take(t.Context(), o)
	if err != nil {
		return 0, err
	}
	defer p.Done()
	time.Sleep(took)
	return time.Since(began), nil
}

// "Another customer sends twenty documents at a time, and mine waits for all of them."
func TestAnHonestOwnerWaitsForOneRunningPiece(t *testing.T) {
	var crowd []Owner // fifty unpaid accounts of one /64, and a hundred addresses
	for range 50 {
		crowd = append(crowd, Unpaid(netip.MustParseAddr("2001:db8::7")))
	}
	for i := range 100 {
		crowd = append(crowd, Unpaid(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})))
	}
	for name, greedy := range map[string][]Owner{
		"one paid account":        slices.Repeat([]Owner{Paid(1)}, 100),
		"many without an account": crowd,
	} {
		for _, places := range []int{1, 2, 8} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					turns, began := NewTurns(places, 128), time.Now()
					var work sync.WaitGroup
					var before atomic.Int64
					for _, o := range greedy {
						work.Go(func() {
							if _, err := run(t, turns, o, time.Second, began); err == nil {
								before.Add(1)
							}
						})
					}
					synctest.Wait()
					time.Sleep(time.Second / 2)
					at, err := run(t, turns, Paid(2), time.Second/10, began)
					if err != nil || at != time.Second+time.Second/10 {
						t.Errorf("%d places: done after %v (%v), expected 1.1s: one running piece and its own", places, at, err)
					}
					if n := before.Load(); n > int64(places) {
						t.Errorf("%d pieces of the greedy one ran before", n)
					}
					work.Wait()
					if n := turns.Waiting(); n != 0 || len(turns.shares) != 0 {
						t.Errorf("%d places and %d shares are left", n, len(turns.shares))
					}
				})
			})
		}
	}
}

// "I am alone on the machine, and half of it idles."
func TestAloneAnOwnerHoldsAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := NewTurns(4, 100), time.Now()
		var work sync.WaitGroup
		for range 40 {
			work.Go(func() {
				if _, err := run(t, turns, Paid(1), time.Second, began); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("40 pieces of 1 s at 4 places took %v, expected 10s", took)
		}
	})
}

// Two owners of one place get the same seconds of work, not the same number of pieces.
func TestPiecesOfAnyLengthShareTheTimeOfAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := NewTurns(1, 100), time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Second)
		defer stop()
		var worked [2]time.Duration
		var work sync.WaitGroup
		for i, took := range []time.Duration{5 * time.Second, time.Second / 10} {
			for range 3 {
				work.Go(func() {
					for ctx.Err() == nil {
						if p, err := turns.Take(ctx, Paid(uint64(i+1))); err == nil {
							time.Sleep(took)
							worked[i] += took
							p.Done()
						}
					}
				})
			}
		}
		work.Wait()
		if time.Since(began) < 100*time.Second || worked[1] < 40*time.Second {
			t.Errorf("long pieces got %v, short ones %v of 100 s", worked[0], worked[1])
		}
	})
}

// "The queue is full of somebody else's work, so mine is refused."
func TestAFullQueueHasRoomForOwnersWithLess(t *testing.T) {
	greedy, far, near := Paid(1), Unpaid(netip.MustParseAddr("2001:db8:1::1")), Unpaid(netip.MustParseAddr("192.0.2.9"))
	for _, c := range []struct {
		name  string
		fills Owner
		comes Owner
		fits  bool
	}{
		{"a paid account fills it, another comes", greedy, Paid(2), true},
		{"a paid account fills it, an unpaid caller comes", greedy, near, true},
		{"unpaid callers fill it, a paid account comes", far, Paid(2), true},
		{"an unpaid caller fills it, one from elsewhere comes", far, near, true},
		{"an account fills it and sends more", greedy, greedy, false},
		{"an address fills it and sends more", far, far, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := NewTurns(1, 10)
				first, err := turns.Take(t.Context(), c.fills)
				if err != nil {
					t.Fatal(err)
				}
				var work sync.WaitGroup
				var full, done atomic.Int64
				take := func(o Owner) {
					work.Go(func() {
						p, err := turns.Take(t.Context(), o)
						switch {
						case errors.Is(err, ErrFull):
							full.Add(1)
						case err != nil:
							t.Error(err)
						default:
							done.Add(1)
							p.Done()
						}
					})
				}
				for range 10 {
					take(c.fills)
				}
				synctest.Wait()
				p, ok := turns.Try(c.comes)
				if ok {
					p.Done()
					t.Fatal("a place was given past the queue")
				}
				came := make(chan error, 1)
				work.Go(func() {
					p, err := turns.Take(t.Context(), c.comes)
					if err == nil {
						p.Done()
					}
					came <- err
				})
				synctest.Wait()
				if n := full.Load(); (n == 1) != c.fits {
					t.Errorf("%d waiters were refused", n)
				}
				first.Done()
				if err := <-came; (err == nil) != c.fits {
					t.Errorf("the newcomer got %v", err)
				}
				work.Wait()
				if turns.Waiting() != 0 || len(turns.shares) != 0 {
					t.Error("places or shares are left")
				}
			})
		})
	}
}

func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	turns := NewTurns(1, 10)
	p, err := turns.Take(t.Context(), Paid(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Owner{Paid(1), Paid(2), {}} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := turns.Take(ctx, o)
			ended <- err
		}()
		for turns.Waiting() != 2 {
			time.Sleep(time.Millisecond)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	p.Done()
	if turns.Waiting() != 0 || len(turns.shares) != 0 {
		t.Error("places or shares are left")
	}
}

// Whatever owners do, no more places are taken than there are, none is lost, and an owner
// with more places is not served before one with less.
func TestTurnsKeepTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, queue := rapid.IntRange(1, 4).Draw(t, "places"), rapid.IntRange(0, 12).Draw(t, "queue")
		turns := NewTurns(places, queue)
		owners := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Owner {
			return Owner{Account: rapid.Uint64Range(0, 3).Draw(t, "account"), Net: rapid.Uint64Range(1, 3).Draw(t, "net")}
		}), 1, 60).Draw(t, "owners")
		var held, most atomic.Int64
		var work sync.WaitGroup
		for i, o := range owners {
			if o.Account != 0 {
				o.Net = 0
			}
			work.Go(func() {
				ctx, stop := context.WithTimeout(context.Background(), time.Duration(i%7)*100*time.Microsecond+time.Microsecond)
				defer stop()
				p, err := turns.Take(ctx, o)
				if err != nil {
					return
				}
				if n := held.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Duration(i%3) * 50 * time.Microsecond)
				held.Add(-1)
				p.Done()
			})
		}
		work.Wait()
		if n := most.Load(); n > int64(places) {
			t.Fatalf("%d at once at %d places", n, places)
		}
		if turns.Waiting() != 0 || turns.taken != 0 || len(turns.shares) != 0 {
			t.Fatalf("%d waiting, %d taken, %d shares are left", turns.waiting, turns.taken, len(turns.shares))
		}
	})
}

// "One customer fills the disk with kept answers, then nobody's request is taken."
func TestARoomKeepsSpaceForOthers(t *testing.T) {
	r := NewRoom(8000)
	for r.Take(Paid(1), 1) {
	}
	if n := r.Used(); n != 7000 {
		t.Errorf("alone it got %d of 8000, expected seven eighths", n)
	}
	if !r.Take(Paid(2), 500) {
		t.Error("another account found no space")
	}
	if r.Take(Paid(1), 1) {
		t.Error("the first got more while little is free")
	}
	net := func(i int) Owner { return Unpaid(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})) }
	for i := range 1000 {
		for r.Take(net(i), 1) {
		}
	}
	if !r.Take(Paid(3), 1) {
		t.Error("unpaid callers from many addresses left nothing to a paid account")
	}
	if r := NewRoom(1); !r.Take(Paid(1), 1) || r.Take(Paid(2), 1) {
		t.Error("a room for one has a place for one")
	}
}

// "My only upload was refused in its middle, because others were busy."
func TestTheOnlyPieceOfAnOwnerGrowsIntoFreeSpace(t *testing.T) {
	near := Unpaid(netip.MustParseAddr("192.0.2.9"))
	for _, o := range []Owner{Paid(2), near} {
		r := NewRoom(800)
		for r.Take(Paid(1), 100) {
		}
		if n := r.Used(); n != 700 {
			t.Fatalf("the first holds %d", n)
		}
		for had := int64(0); had < 100; had += 10 {
			if !r.Grow(o, had, 10) {
				t.Errorf("%v: a piece of 100 ends at %d", o, had)
			}
		}
		if r.Grow(o, 100, 1) {
			t.Error("more was given than there is")
		}
		r.Give(o, 50)
		if r.Grow(o, 0, 50) {
			t.Error("a second piece took all that is free")
		}
	}
}

// Repeated takes and returns allocate nothing.
func TestARoomAllocatesNothing(t *testing.T) {
	r := NewRoom(1 << 20)
	near := Unpaid(netip.MustParseAddr("192.0.2.9"))
	if n := testing.AllocsPerRun(1000, func() {
		for _, o := range []Owner{Paid(7), near} {
			if !r.Take(o, 1000) {
				t.Fatal("it did not fit")
			}
			r.Give(o, 1000)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestARoomAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRoom(rapid.Int64Range(0, 1000).Draw(t, "most"))
		held := map[Owner]int64{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			o := Owner{Account: rapid.Uint64Range(0, 3).Draw(t, "account")}
			if o.Account == 0 {
				o.Net = rapid.Uint64Range(0, 3).Draw(t, "net")
			}
			if n := rapid.Int64Range(1, 300).Draw(t, "n"); rapid.Bool().Draw(t, "gives") {
				n = min(n, held[o])
				r.Give(o, n)
				held[o] -= n
			} else if r.Take(o, n) {
				held[o] += n
			}
			sum := int64(0)
			for _, n := range held {
				sum += n
			}
			if sum != r.Used() || sum > r.most {
				t.Fatalf("%d held, %d used of %d", sum, r.Used(), r.most)
			}
		}
		for o, n := range held {
			r.Give(o, n)
		}
		if r.Used() != 0 || len(r.held)+len(r.nets) != 0 {
			t.Fatalf("%d used, %d shares are left", r.Used(), len(r.held)+len(r.nets))
		}
	})
}

func TestABudgetRefills(t *testing.T) {
	b, now := NewBudget(30*time.Second), time.Now()
	o := Paid(1)
	for range 6 {
		if w := b.Wait(o, now); w != 0 {
			t.Fatalf("waits %v", w)
		}
		b.Spend(o, 6*time.Second, now)
	}
	if w := b.Wait(o, now); w != 12*time.Second {
		t.Errorf("36 s of 30 a minute: waits %v, expected 12s", w)
	}
	if w := b.Wait(Paid(2), now); w != 0 {
		t.Errorf("another owner waits %v", w)
	}
	if w := b.Wait(o, now.Add(12*time.Second)); w != 0 {
		t.Errorf("after 12 s it waits %v", w)
	}
}

func TestOwnersOfUnpaidCallers(t *testing.T) {
	same := func(a, b string) bool { return Unpaid(netip.MustParseAddr(a)) == Unpaid(netip.MustParseAddr(b)) }
	if !same("2001:db8::1", "2001:db8::ffff:1") || same("2001:db8::1", "2001:db8:0:1::1") {
		t.Error("an IPv6 caller is its /64")
	}
	if same("192.0.2.1", "192.0.2.2") || !same("192.0.2.1", "::ffff:192.0.2.1") {
		t.Error("an IPv4 caller is its address")
	}
	if Unpaid(netip.Addr{}) != (Owner{}) || Unpaid(netip.MustParseAddr("::1")) == Unpaid(netip.MustParseAddr("0.0.0.1")) {
		t.Error("callers are mixed up")
	}
	if Of(With(context.Background(), Paid(7))) != Paid(7) || Of(context.Background()) != (Owner{}) {
		t.Error("a context loses its owner")
	}
}
