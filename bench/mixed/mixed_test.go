package mixed

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

func options(t *testing.T, o upstream.Options) (*upstream.Server, Options) {
	t.Helper()
	s := upstream.New(o)
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, Options{URL: url, Model: "sim-chat", EmbeddingModel: "sim-embedding", Requests: 2000, Concurrency: 32,
		Seed: 1}
}

// Without a gateway between them, driver and upstream must agree to the token:
// whatever differs later is the gateway's doing.
func TestBooksOfDriverAndUpstreamAgree(t *testing.T) {
	s, o := options(t, upstream.Options{})
	truth, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if truth.Wrong > 0 || truth.Sent != 2000 {
		t.Fatalf("%d sent, %d wrong: %s", truth.Sent, truth.Wrong, strings.Join(truth.Examples, "\n"))
	}
	if !s.WaitIdle(5 * time.Second) {
		t.Fatal("requests are still open at the upstream")
	}
	if diff := truth.Differences(s.Stats()); len(diff) > 0 {
		t.Errorf("the books differ:\n%s", strings.Join(diff, "\n"))
	}
	for _, k := range kinds {
		if truth.Kinds[k.name].Requests == 0 {
			t.Errorf("no %s among 2000 requests", k.name)
		}
	}
	if truth.Kinds["status_500"].CompletionTokens != 0 || truth.Billable.Requests >= truth.Sent {
		t.Errorf("refused requests are billable: %+v", truth)
	}
}

func TestLostTokenIsSeen(t *testing.T) {
	s, o := options(t, upstream.Options{})
	o.Requests = 100
	truth, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.WaitIdle(5 * time.Second)
	stats := s.Stats()
	stats.Tokens.CompletionTokens--
	if diff := truth.Differences(stats); len(diff) != 1 || !strings.Contains(diff[0], "(-1)") {
		t.Errorf("%v", diff)
	}
}

func TestWrongAnswersAreCounted(t *testing.T) {
	_, o := options(t, upstream.Options{Faults: []upstream.Fault{{Share: 0.5, Scenario: "status=503"}}})
	o.Requests = 200
	truth, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if truth.Wrong < 40 || len(truth.Examples) == 0 || !strings.Contains(truth.Examples[0], "status 503") {
		t.Errorf("%d wrong: %v", truth.Wrong, truth.Examples)
	}
}

func TestSameSeedSendsTheSameRequests(t *testing.T) {
	_, o := options(t, upstream.Options{})
	o.Requests = 300
	var before *Truth
	for _, concurrency := range []int{1, 16} {
		o.Concurrency = concurrency
		truth, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && before.Billable != truth.Billable {
			t.Errorf("%+v, then %+v", before.Billable, truth.Billable)
		}
		before = truth
	}
}

func TestSharesAddUp(t *testing.T) {
	sum := 0.0
	for _, k := range kinds {
		sum += k.share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares add up to %v", sum)
	}
}

func TestMissingOptionsSayWhatToGive(t *testing.T) {
	if _, err := Run(context.Background(), Options{}); err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("%v", err)
	}
	if _, err := Run(context.Background(), Options{URL: "http://x", Model: "m"}); err == nil {
		t.Error("no requests were accepted")
	}
}
