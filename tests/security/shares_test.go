package security

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// The table in SECURITY.md names the resources that customers share; each row has its case here.
func TestEveryRowOfSharedResourcesHasItsCase(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## What customers share\n")
	if !found {
		t.Fatal("SECURITY.md has no section of shared resources")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, cases []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || len(cells) != 5 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "Resource" {
			continue
		}
		rows = append(rows, cells[0]+", "+cells[3])
		if cells[1] == "" || cells[2] == "" || !regexp.MustCompile("`Test\\w+`").MatchString(cells[4]) {
			t.Errorf("the row of %s names no share, no most or no test", cells[0])
		}
	}
	for i := range whatIsShared {
		cases = append(cases, whatIsShared[i].resource+", "+whatIsShared[i].waits())
	}
	if !slices.Equal(rows, cases) {
		t.Errorf("rows and cases differ:\n%s\n\nand\n%s", strings.Join(rows, "\n"), strings.Join(cases, "\n"))
	}
}

// waits is the table's column of waits of an honest request.
func (c *shared) waits() string {
	if c.places == 0 {
		return "nothing"
	}
	return fmt.Sprintf("one of %d running pieces", c.places)
}

// "Somebody else is busy, and my requests are refused or wait for all of his."
func TestOneGreedyCustomerTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	s := openShares(t, "", "", "", false)
	t.Run("walk", func(t *testing.T) {
		for i := range whatIsShared {
			c := &whatIsShared[i]
			if c.long {
				continue
			}
			t.Run(strings.ReplaceAll(c.resource, " ", "_"), func(t *testing.T) {
				if !c.apart {
					t.Parallel()
				}
				for _, g := range s.kinds {
					s.walk(t, c, g)
				}
			})
		}
	})
	s.left.finish("")
	s.CLI("verify")
}

// beside has a greedy kind take all that it can get, calls f meanwhile, and ends it.
func (s *shares) beside(t *testing.T, c *shared, g greedy, f func(*crowd)) {
	t.Helper()
	crowd := s.send(g, c.workers, c.most, func(ctx context.Context, who caller) int { return c.piece(s, ctx, who) })
	rig.Await(t, g.name+" has all it can get of "+c.resource, func() bool { return c.full(s, crowd) })
	f(crowd)
	crowd.stop()
	if c.after != nil {
		c.after(s)
	}
	t.Logf("%s got %v", g.name, crowd.got)
}

// walk asserts that nothing of the honest account is refused beside a greedy kind, and
// that it waits for no more pieces than were running. A piece can end while the honest
// request is on its way to the gateway, so that the best of three requests counts.
func (s *shares) walk(t *testing.T, c *shared, g greedy) {
	t.Helper()
	if status, answer := c.honest(s); status != 200 {
		t.Errorf("alone: an honest request is answered %d %.300s", status, answer)
	}
	most := int64(c.places * max(1, c.turns))
	s.beside(t, c, g, func(crowd *crowd) {
		fewest := int64(math.MaxInt64)
		for try := 0; try < 5 && fewest > most; try++ {
			before := crowd.aligned(c.places > 0 && c.most == 0)
			status, answer := c.honest(s)
			fewest = min(fewest, crowd.ran.Load()-before)
			if status != 200 {
				t.Errorf("beside %s: an honest request is answered %d %.300s", g.name, status, answer)
			}
			if c.places == 0 {
				return
			}
		}
		if fewest > most {
			t.Errorf("beside %s: %d greedy pieces ended before the honest one, at most %d were running", g.name, fewest, most)
		}
	})
}

// aligned waits until a piece has just ended, so that the running ones are at their
// beginning, and gives how many have ended.
func (c *crowd) aligned(wait bool) int64 {
	n := c.ran.Load()
	if !wait {
		return n
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && c.ran.Load() == n; {
		time.Sleep(time.Millisecond)
	}
	for before := int64(-1); before != n; {
		before = n
		time.Sleep(20 * time.Millisecond)
		n = c.ran.Load()
	}
	return n
}

// floor is the part of any p99 that a busy machine adds.
const floor = 150 * time.Millisecond

// The walk with times, on both kinds of stores: by hand, since it takes an hour.
func TestLongOneGreedyCustomerTakesNothingFromOthers(t *testing.T) {
	requests, _ := strconv.Atoi(os.Getenv("FAREBOX_SHARES"))
	if requests < 1 {
		t.Skip("takes three minutes for each honest request of a row: set FAREBOX_SHARES=20")
	}
	chromium := servers.Chromium(t)
	for _, store := range []string{"embedded", "PostgreSQL and Redis"} {
		t.Run(store, func(t *testing.T) {
			database, settings := "", ""
			if store != "embedded" {
				database = servers.Database(t)
				settings = fmt.Sprintf("node: { name: n, dir: %q }\nredis: { addresses: [%q], timeout: 1s }\n", t.TempDir(),
					servers.StartRedis(t).Addr)
			}
			s := openShares(t, database, settings, fmt.Sprintf(", js: { engine: chromium, path: %q, pages: 2 }", chromium), true)
			var b strings.Builder
			w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "resource\tbeside\tp50 alone\tp99 alone\tp50 beside\tp99 beside\trefused\tpieces before")
			for i := range whatIsShared {
				c := &whatIsShared[i]
				alone := s.times(c, nil, requests)
				for _, g := range s.kinds {
					piece := s.onePiece(c, g)
					var at times
					s.beside(t, c, g, func(crowd *crowd) { at = s.times(c, crowd, requests) })
					fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%v\t%v\t%d of %d\t%d\n", c.resource, g.name, alone.part(50), alone.part(99),
						at.part(50), at.part(99), at.refused, requests, at.before)
					most := 2*alone.part(99) + floor + time.Duration(max(1, c.turns))*piece
					if at.refused > 0 || alone.refused > 0 || at.part(99) > most {
						t.Errorf("%s beside %s: %d refused, p99 %v, at most %v is allowed", c.resource, g.name, at.refused,
							at.part(99), most)
					}
				}
			}
			_ = w.Flush()
			t.Log("\n" + b.String())
			s.left.finish("")
			s.CLI("verify")
		})
	}
}

// onePiece is how long a running piece takes while the other places work, too; 0 where
// nothing is waited for.
func (s *shares) onePiece(c *shared, g greedy) time.Duration {
	if c.places == 0 {
		return 0
	}
	began := time.Now()
	crowd := s.send(g, c.places, c.places, func(ctx context.Context, who caller) int { return c.piece(s, ctx, who) })
	crowd.wait()
	return time.Since(began)
}

// times are of honest requests.
type times struct {
	took    []time.Duration // sorted
	refused int
	before  int64 // the most greedy pieces that ended during one
}

func (s *shares) times(c *shared, crowd *crowd, requests int) (at times) {
	for range requests {
		var before int64
		if crowd != nil {
			before = crowd.aligned(c.places > 0 && c.most == 0)
		}
		began := time.Now()
		status, _ := c.honest(s)
		at.took = append(at.took, time.Since(began))
		if crowd != nil {
			at.before = max(at.before, crowd.ran.Load()-before)
		}
		if status != 200 {
			at.refused++
		}
	}
	slices.Sort(at.took)
	return at
}

func (at *times) part(percent int) time.Duration {
	return at.took[min(len(at.took)*percent/100, len(at.took)-1)].Round(100 * time.Microsecond)
}
