package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/oracles/messagestest"
	"farebox/tests/rig"
)

// Habits of truthful servers, and faults of others.
var (
	messageHabits = []string{"", "", "tokens=60", "cached=4", "cached=4 cache_write=3", "reasoning=9", "hidden=50", "usage=late", "usage=twice",
		"split=byte crlf=1", "split=utf8 unicode=1", "split=crlf", "split=frame", "comments=1 events_per_write=3", "unicode=1"}
	messageFaults = []string{"cut=fin cut_after=3", "cut=rst cut_after=3", "error_event=1 error_after=4", "usage=none", "usage=huge",
		"usage=negative", "usage=zero", "usage=less", "usage=over", "usage=contradict", "said_in=unknown", "status=500", "status=429",
		"status=400", "status=404", "status=529", "wrong=half", "wrong=html", "wrong=array", "garbage=1", "empty=1", "truncate=1", "no_done=1"}
)

// Thousands of conversations in Anthropic's format, against servers of every dialect, habit and
// fault: the client's package can read every answer, and each has an end; the ledger matches the
// server's usage.
func TestLongMessagesAreWhole(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	faulty := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	good, goodKey := startMessages(t, sim.URL)
	bad, badKey := startMessages(t, faulty.URL)
	const at = 4
	n := int64(servers.Campaign(3_000))
	var next, answered, broken atomic.Int64
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for seed := next.Add(1); seed <= n && !t.Failed(); seed = next.Add(1) {
				c := newGeminiTalk(uint64(seed))
				c.stream, c.faulty, c.path = c.r.IntN(4) > 0, c.r.IntN(5) == 0, "/messages"
				model, habit := c.pick("own", "openai", "google"), c.pick(messageHabits...)
				g, key := good, goodKey
				if c.faulty {
					g, key, habit = bad, badKey, c.pick(messageFaults...)
				}
				say := func() string { return c.pick("Go on.", "\u00e9 😀", `a \"quote\"\n`, "<b>") }
				asked := fmt.Sprintf("[[sim id=s%d %s%s]] %s", seed, habit, c.pick("", "", " tool=look", " reasoning=5"), say())
				c.body = fmt.Sprintf(`{"model":%q,"stream":%v%s}`, model, c.stream,
					strings.ReplaceAll(c.messages(asked, say), `"content":"y"}]},`, `"content":"y"}]},{"role":"assistant","content":"z"},`))
				status, body, err := c.send(g, key)
				if err != nil {
					if !c.faulty {
						t.Errorf("seed %d: %s: %v", seed, c.body, err)
					}
					continue
				}
				whole, err := judgeMessage(status, body, model == "own", c.stream)
				switch {
				case err != nil:
					t.Errorf("seed %d: %v\n%s\nanswered %d %s", seed, err, c.body, status, body)
				case whole:
					answered.Add(1)
				case !c.faulty:
					t.Errorf("seed %d: %s\nanswered %d %s", seed, c.body, status, body)
				default:
					broken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d answers, %d errors", answered.Load(), broken.Load())
	tokens := sim.Idle(t).Tokens
	worth := rig.Money((tokens.PromptTokens-tokens.CachedTokens-tokens.WrittenTokens)*1000 + tokens.CachedTokens*500 +
		tokens.WrittenTokens*1250 + tokens.CompletionTokens*2000)
	if a := good.Settled()["a"]; a.Spent != worth {
		t.Errorf("charged %s for usage worth %s (%+v)", a.Spent, worth, tokens)
	}
	if refused := sim.Stats().Outcomes[upstream.Refused].Requests; refused > 0 {
		t.Errorf("%d requests were refused", refused)
	}
	if answered.Load() < n/2 || broken.Load() < n/50 {
		t.Errorf("%d answers, %d errors: the conversations are not of every kind", answered.Load(), broken.Load())
	}
	faulty.Idle(t)
	bad.Settled()
}

// judgeMessage says whether an answer is whole, or an error in Anthropic's form.
func judgeMessage(status int, body string, own, stream bool) (whole bool, err error) {
	if strings.Contains(body, "simsecret") || strings.Contains(body, "127.0.0.1") || strings.Contains(body, "claude-opus") {
		return false, fmt.Errorf("it shows the upstream's names")
	}
	if status != 200 {
		if !json.Valid([]byte(body)) || gjson.Get(body, "type").Str != "error" || gjson.Get(body, "error.message").Str == "" {
			return false, fmt.Errorf("it is not an error")
		}
		return false, nil
	}
	switch {
	case stream && own:
		// The upstream's own events, ends of lines and order.
		_, failed, err := messagestest.Order(strings.ReplaceAll(body, "\r\n", "\n"))
		if err != nil && strings.Contains(body, "event: message_delta") {
			err = nil
		}
		return err == nil && !failed, err
	case stream:
		_, failed, err := messagestest.Check(body)
		return err == nil && !failed, err
	case own:
		if gjson.Get(body, "type").Str != "message" {
			return false, fmt.Errorf("it is not a message")
		}
		return true, nil
	}
	_, err = messagestest.CheckMessage([]byte(body))
	return err == nil, err
}
