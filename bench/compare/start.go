package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"farebox/bench/load"
)

// Start is the time that farebox takes to start with so many keys in its store, and its memory then.
type Start struct {
	Keys      int     `json:"keys"`
	AnswerMs  float64 `json:"answer_ms"` // from the start to the answer of a chat request; median
	CPUMs     float64 `json:"cpu_ms"`    // till then; median
	IdleBytes int64   `json:"idle_bytes"`
}

const (
	startName   = "start"
	startRounds = 5
	// keysAnAccount is below the most live keys that an account may have.
	keysAnAccount = 400
	// A key is made in a transaction of its own; several wait for one write to the disk.
	keyMakers = 8
	// keysPerSecond is for the progress bar.
	keysPerSecond = 700
)

// startPlan is with how many keys farebox is started.
func startPlan(quick bool) []int {
	if quick {
		return []int{1, 1_000}
	}
	return []int{1, 100_000}
}

// starts measures farebox alone: the others have no keys.
func (p *plan) starts(ctx context.Context) error {
	for _, keys := range startPlan(p.o.Quick) {
		p.step(0, fmt.Sprintf("%s with %d keys", startName, keys))
		s, err := p.l.measureStart(ctx, keys)
		if err == nil {
			p.c.Starts = append(p.c.Starts, s)
		} else if err := p.failed(ctx, startName, contender, err); err != nil {
			return err
		}
		p.step(startSeconds(keys), startName)
	}
	return nil
}

func startSeconds(keys int) float64 { return 3 + float64(keys)/keysPerSecond }

// measureStart makes keys in an unused store, and starts farebox with it several times.
func (l *lab) measureStart(ctx context.Context, keys int) (Start, error) {
	s := Start{Keys: keys}
	g, err := startFarebox(l)
	defer func() { g.stop() }()
	if err != nil {
		return s, err
	}
	if err := makeKeys(ctx, filepath.Join(g.dir, "store", "operator.sock"), keys-1); err != nil {
		return s, err
	}
	var took, cpu []float64
	for range startRounds {
		g.stop()
		began := time.Now()
		if err := g.serve(l); err != nil {
			return s, err
		}
		watched := load.Watch(g.pids(false))
		if err := g.firstAnswer(ctx, began.Add(startLimit)); err != nil {
			return s, err
		}
		took = append(took, float64(time.Since(began))/1e6)
		if u := watched.Stop(); u != nil {
			cpu = append(cpu, u.CPUSeconds*1e3)
		}
		time.Sleep(settleTime)
		s.IdleBytes = load.RSS(g.pids(false)...)
	}
	s.AnswerMs, s.CPUMs = median(took), median(cpu)
	return s, nil
}

// firstAnswer sends the same chat request until the gateway listens and answers it.
func (g *gateway) firstAnswer(ctx context.Context, end time.Time) error {
	for ctx.Err() == nil {
		req, err := g.request("bench-1k", false)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("the first request was answered with status %d: %.200s", answer.StatusCode, text)
			}
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no request was answered within %v: %w: %s", startLimit, err, g.said())
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// makeKeys makes keys in accounts of their own over the operator's socket.
func makeKeys(ctx context.Context, socket string, keys int) error {
	var dialer net.Dialer
	transport := &http.Transport{MaxIdleConnsPerHost: keyMakers, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	post := func(path, id string, body any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/operator/v1"+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "X-Farebox-Operator": "1", "Idempotency-Key": id} {
			req.Header.Set(name, value)
		}
		answer, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("cannot make keys: %s is answered %d %.200s: %w", path, answer.StatusCode, text, err)
		}
		return nil
	}
	type task struct{ from, to int }
	tasks, failed := make(chan task), make(chan error, keyMakers)
	var makers sync.WaitGroup
	for range keyMakers {
		makers.Go(func() {
			for t := range tasks {
				account := "keys-" + strconv.Itoa(t.from)
				err := post("/accounts", account, map[string]string{"name": account})
				for i := t.from; i < t.to && err == nil; i++ {
					err = post("/accounts/"+account+"/keys", "key-"+strconv.Itoa(i), map[string]string{"type": "INFERENCE"})
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for from := 0; from < keys && err == nil; from += keysAnAccount {
		select {
		case tasks <- task{from, min(from+keysAnAccount, keys)}:
		case err = <-failed:
		}
	}
	close(tasks)
	makers.Wait()
	select {
	case err = <-failed:
	default:
	}
	return err
}
