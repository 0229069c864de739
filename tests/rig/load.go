package rig

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// Load is clients who ask for chats, every fourth of them for a stream, while
// farebox is killed. All their requests cost the same but for a few tokens of the
// prompt.
type Load struct {
	Sent  atomic.Int64
	Whole atomic.Int64 // answers that were received to the last byte
	Price Money        // of a whole answer

	key    string
	caller http.Client
}

const (
	loadBody   = "[[sim tokens=8]] Hello"
	loadStream = "[[sim tokens=8 gap_ms=2]] Hello"
)

// NewLoad sends one request with a key, whose price is that of all: 1 USD a
// million tokens in, 2 out.
func NewLoad(t *testing.T, sim *Simulated, g *Gateway, key string) *Load {
	t.Helper()
	if status, _, answer := g.Post("/chat/completions", key, Ask("sim-chat", loadBody, "")); status != 200 {
		t.Fatalf("answered %d: %s", status, answer)
	}
	return &Load{
		key: key, Price: Produced(sim.Idle(t).Tokens),
		caller: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
}

// Produced is the price of tokens of a load.
func Produced(n upstream.Tally) Money { return Money(n.PromptTokens*1000 + n.CompletionTokens*2000) }

// Start lets so many clients call a gateway until end, which waits for them.
func (l *Load) Start(g *Gateway, clients int) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for client := range clients {
		body := Ask("sim-chat", loadBody, "")
		if client%4 == 0 {
			body = Ask("sim-chat", loadStream, `,"stream":true`)
		}
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l.Sent.Add(1)
				if complete(&l.caller, g.URL, l.key, body) {
					l.Whole.Add(1)
				} else {
					time.Sleep(20 * time.Millisecond) // it is down
				}
			}
		})
	}
	return func() { close(stop); all.Wait() }
}

// complete sends a request and says whether its answer came whole.
func complete(c *http.Client, url, key, body string) bool {
	req, err := http.NewRequest("POST", url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := c.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		return false
	}
	text := string(raw)
	return !strings.HasPrefix(text, "data:") ||
		strings.HasSuffix(text, "data: [DONE]\n\n") && !strings.Contains(text, `"error"`)
}
