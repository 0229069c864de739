package overspend

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// direct is a "gateway" that charges nothing: the upstream itself.
func direct(t *testing.T, endpoints ...string) Options {
	t.Helper()
	s := upstream.New(upstream.Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o := Options{
		URL: url, Liars: Liars, Leavers: Leavers, Requests: 2, Concurrency: 2, Lanes: 16, Cap: 2000, Balance: 1e9,
		Truth: upstream.Remote{URL: url},
		Books: &CommandBooks{Key: "any", Balance: "echo 1 0"}, Timeout: 5 * time.Second,
	}
	for _, name := range endpoints {
		e, err := EndpointNamed(name, "sim-chat", upstream.Price{Prompt: 1000, Completion: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o
}

// Where nothing is charged, all that was made within the caps is lost.
func TestWhatNobodyChargesIsLost(t *testing.T) {
	t.Parallel()
	o := direct(t, "chat", "chat_stream")
	o.Leavers, _ = LeaversNamed([]string{"stays"})
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		if c.Sent != 2 || c.Let != 2 || c.Refused != 0 || !c.Known {
			t.Errorf("%s %s: %+v", c.Endpoint, c.Liar, c)
		}
		if c.Real == 0 || c.Capped > c.Real || c.Lost != c.Capped || c.Charged != 0 {
			t.Errorf("%s %s: made %d, within caps %d, lost %d", c.Endpoint, c.Liar, c.Real, c.Capped, c.Lost)
		}
		beyond := strings.HasPrefix(c.Liar, "cap_ignored") || c.Liar == "never_ending"
		if beyond != (c.Real > c.Capped) {
			t.Errorf("%s %s: made %d, within caps %d", c.Endpoint, c.Liar, c.Real, c.Capped)
		}
	}
	rows := r.Rows()
	if all := rows[len(rows)-1].Sum; all.Sent != int64(2*len(r.Cells)) || all.Lost != all.Capped {
		t.Errorf("%+v", all)
	}
	var b strings.Builder
	r.Print(&b)
	if !strings.Contains(b.String(), "chat hidden_total") {
		t.Error(b.String())
	}
}

// Clients that leave are seen to leave, before all was made where the upstream stops then. A busy
// machine may send the few hundred milliseconds of a stream before a client runs: one of three tries
// has to succeed.
func TestLeaversLeave(t *testing.T) {
	t.Parallel()
	var wrong []string
	for range 3 {
		if wrong = leaversThatStayed(t); len(wrong) == 0 {
			return
		}
	}
	t.Error(strings.Join(wrong, "\n"))
}

// leaversThatStayed runs all leavers once, and returns the deviations.
func leaversThatStayed(t *testing.T) (wrong []string) {
	o := direct(t, "chat", "chat_stream")
	o.Liars, _ = LiarsNamed([]string{"honest"})
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range r.Cells {
		seen[c.Leaver] = true
		if leaves := c.Leaver != "stays"; leaves != (c.Left == 2) || c.Failed > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s: %+v", c.Endpoint, c.Leaver, c))
		}
		runsOn := c.Leaver == "stays" || c.Leaver == "head_run_on" && c.Endpoint == "chat" ||
			strings.HasPrefix(c.Leaver, "before_usage")
		if full := c.Made.Completion == 400; full != runsOn || c.Made.Prompt == 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s: %+v", c.Endpoint, c.Leaver, c.Made))
		}
	}
	for _, l := range Leavers {
		if !seen[l.Name] && !l.crowd {
			t.Errorf("no client was %s", l.Name)
		}
	}
	return wrong
}

func TestOverspendStaysOnThisMachine(t *testing.T) {
	o := direct(t, "chat")
	o.URL = "http://192.0.2.1/v1"
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "--remote") {
		t.Errorf("%v", err)
	}
}

func TestBooksAreReadFromCommands(t *testing.T) {
	for text, want := range map[string]Funds{
		"echo 0.5": {Known: true, Key: -1, Left: 5e8}, "echo 0.000000001 2": {Known: true, Key: -1, Left: 1, Debt: 2e9},
		"echo -0.25": {Known: true, Key: -1, Debt: 25e7},
		`echo '{"balances":{"usd":0.75},"debt":"0.1"}'`: {Known: true, Key: -1, Left: 75e7, Debt: 1e8}, "true": {},
		"": {},
		`test "$CELL $KEY" = "c secret" && echo 3`: {Known: true, Key: -1, Left: 3e9},
	} {
		b := &CommandBooks{Account: "echo account $CELL of $AMOUNT; echo secret", Balance: text, Amount: 15e7}
		if key, err := b.Open(context.Background(), "c"); err != nil || key != "secret" {
			t.Errorf("the key is %q, %v", key, err)
		}
		if f, err := b.Read(context.Background(), "c"); err != nil || f != want {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
	b := &CommandBooks{Balance: "echo nothing"}
	if _, err := b.Read(context.Background(), "c"); err == nil {
		t.Error("a word was read as money")
	}
}

func TestNamesAreChecked(t *testing.T) {
	if _, err := LiarsNamed([]string{"nobody"}); err == nil || !strings.Contains(err.Error(), "hidden_total") {
		t.Errorf("%v", err)
	}
	if _, err := EndpointNamed("chats", "m", upstream.Price{}); err == nil {
		t.Error("an unknown endpoint was taken")
	}
	for _, l := range Liars {
		for _, words := range []string{l.stream, l.whole, l.embeddings, l.sound, l.speech, l.job} {
			if _, err := upstream.ParseScenario(words); err != nil {
				t.Errorf("%s: %v", l.Name, err)
			}
		}
	}
}
