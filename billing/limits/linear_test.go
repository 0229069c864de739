package limits

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"farebox/bench/servers"
	"farebox/config"
)

// takeOutcome is a client's view of one request for permits.
type takeOutcome struct {
	granted int64
	unknown bool // no answer: it may have been executed, once
}

// limitModel is a limit as it should be: so many permits, then none.
func limitModel(limit int64) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{int64(0)} },
		Step: func(state, input, output any) []any {
			used, want, out := state.(int64), input.(int64), output.(takeOutcome)
			grant := min(want, limit-used)
			if out.unknown {
				return []any{used, used + grant}
			}
			if out.granted != grant {
				return nil
			}
			return []any{used + grant}
		},
		Equal: func(a, b any) bool { return a.(int64) == b.(int64) },
	}
	return m.ToModel()
}

// The results of eight clients on one limit, with broken connections and lost answers,
// could have come from one clerk with one counter.
func TestTakingPermitsIsLinearizable(t *testing.T) { takingPermits(t, 5) }

func TestLongTakingPermitsIsLinearizable(t *testing.T) { takingPermits(t, servers.Campaign(15)) }

func takingPermits(t *testing.T, histories int) {
	t.Parallel()
	server := servers.StartRedis(t)
	cut := servers.StartCut(t, server.Addr)
	const clients, ops, limit = 8, 25, 300
	unknown := 0
	rate := &config.Rate{RPD: limit}
	direct := make([]*redisClient, clients)
	for i := range direct {
		direct[i] = limitsOf(t, server, func(c *config.Redis) { c.Addresses = []string{cut.Addr} })
	}
	for round := range histories {
		keys := []any{fmt.Sprintf("{0}:w%d", round)}
		var mu sync.Mutex
		var history []porcupine.Operation
		begin := time.Now()
		var all sync.WaitGroup
		for client, c := range direct {
			all.Go(func() {
				for op := range ops {
					want := int64(1 + (client+op)%3)
					a := askFor(rate, want, 0, 0)
					blob := a.append(nil)
					call := int64(time.Since(begin))
					var got answer
					err := c.call(productionCode, keys, blob, &got)
					if errors.Is(err, errNotSent) {
						continue
					}
					out := takeOutcome{granted: got.windows[0].granted, unknown: err != nil}
					mu.Lock()
					if out.unknown {
						unknown++
					}
					o := porcupine.Operation{ClientId: client, Input: want, Call: call, Output: out,
						Return: int64(time.Since(begin))}
					if out.unknown {
						o.Return = 1 << 60 // it may still happen
					}
					history = append(history, o)
					mu.Unlock()
				}
			})
		}
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for range 3 {
				time.Sleep(3 * time.Millisecond)
				cut.LoseAnswer()
			}
		}()
		all.Wait()
		<-stop
		if got := porcupine.CheckOperationsTimeout(limitModel(limit), history, 20*time.Second); got != porcupine.Ok {
			t.Fatalf("history %d of %d operations: %s", round, len(history), got)
		}
	}
	if unknown == 0 {
		t.Error("no answer was lost, which proves nothing")
	}
	t.Logf("%d histories, %d answers lost", histories, unknown)
}
