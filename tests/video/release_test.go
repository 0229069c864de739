package video

import (
	"encoding/json"
	"fmt"
	"testing"

	"farebox/tests/rig"
)

// release orders a film of a prompt, waits until its upstream says so, lets it go, and waits
// until the upstream has stopped or made it.
func (s *cinema) release(t *testing.T, key, model, directive, name string, polls int) {
	t.Helper()
	q := s.queue(t, key, fmt.Sprintf(`{"model":%q,"prompt":"[[sim %s]] %s","duration":"5s"}`, model, directive, name))
	rig.Await(t, "its upstream was asked", func() bool {
		o := s.ordered(name)
		return len(o) == 1 && o[0].Polls >= polls
	})
	s.Must(200, "POST", "/video/complete", key, fmt.Sprintf(`{"model":%q,"queue_id":%q}`, model, q.ID), nil)
	rig.Await(t, "its upstream has stopped or made it", func() bool {
		o := s.ordered(name)
		return len(o) == 1 && (o[0].Cancelled || o[0].Made)
	})
	var j struct {
		EndedAt string `json:"ended_at"`
	}
	rig.Await(t, "the job has ended", func() bool {
		s.CLIJSON(&j, "job", "show", q.ID)
		return j.EndedAt != ""
	})
}

// "It only waited in the queue, and I let it go." A job that its upstream had not begun
// costs nothing, once; one that had begun, or begins at that moment, costs its price.
func TestAFilmThatOnlyWaitsIsFree(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "")
	for _, one := range []struct {
		name, directive string
		polls           int // before it is let go
		free            bool
	}{
		{"taken out of the queue", "polls=1000", 0, true},
		{"its end says that it had not begun", "job=late_cancel polls=1000", 1, true},
		{"it begins at the same moment", "job=race polls=1000", 1, false},
		{"it had begun", "job=stuck polls=1", 2, false},
		{"it had begun, and its end says so", "job=late_cancel polls=2 think_ms=60000", 3, false},
	} {
		for door, price := range map[string]string{"by-second": "0.25", "by-piece": "0.085"} {
			t.Run(door+": "+one.name, func(t *testing.T) {
				t.Parallel()
				key := s.account(door + one.name)
				s.release(t, key, door, one.directive, door+" "+one.name, one.polls)
				want := price
				if one.free {
					want = "0"
				}
				s.spent(t, key, want)
			})
		}
	}
}

// A process that dies between the upstream's word and its own still gives the price back,
// once.
func TestAFilmThatOnlyWaitedIsGivenBackOnceAcrossKills(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "")
	key := s.account("kills")
	const films = 8
	for i := range films {
		name := fmt.Sprintf("killed %d", i)
		q := s.queue(t, key, fmt.Sprintf(`{"model":"by-second","prompt":"[[sim job=late_cancel polls=1000]] %s","duration":"5s"}`, name))
		s.Must(200, "POST", "/video/complete", key, fmt.Sprintf(`{"model":"by-second","queue_id":%q}`, q.ID), nil)
		rig.Await(t, "its upstream has stopped", func() bool {
			o := s.ordered(name)
			return len(o) == 1 && o[0].Cancelled
		})
		s.Kill()
		s.Start()
	}
	s.spent(t, key, "0")
	var list []struct {
		Refunded struct{ USD json.Number }
	}
	s.CLIJSON(&list, "job", "list", "--account", "kills")
	for _, j := range list {
		if rig.Exact(t, j.Refunded.USD).String() != "0.25" {
			t.Errorf("a film gave back %s", j.Refunded.USD)
		}
	}
	if len(list) != films {
		t.Errorf("there are %d jobs", len(list))
	}
}
