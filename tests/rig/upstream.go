package rig

import (
	"testing"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
)

// Simulated is an upstream inside the test process, which knows the truth.
type Simulated struct {
	*strict.Server
	URL string // with /v1, for base_url
}

// StartUpstream serves a simulated upstream on loopback until the test ends.
func StartUpstream(t testing.TB, o upstream.Options) *Simulated {
	t.Helper()
	s := strict.New(o)
	url, err := s.Start()
	if err != nil {
		t.Fatalf("cannot start the simulated upstream: %v", err)
	}
	t.Cleanup(s.Close)
	return &Simulated{Server: s, URL: url}
}

// Idle is the upstream's truth once it has booked all it answered, which it
// does just after the last byte.
func (s *Simulated) Idle(t *testing.T) upstream.Stats {
	t.Helper()
	if !s.WaitIdle(patience) {
		t.Fatal("the upstream is still answering")
	}
	return s.Stats()
}

// Latest is the request that the upstream answered last.
func (s *Simulated) Latest(t *testing.T) upstream.Received {
	t.Helper()
	s.Idle(t)
	all := s.Last()
	if len(all) == 0 {
		t.Fatal("no request reached the upstream")
	}
	return all[len(all)-1]
}
