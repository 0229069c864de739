package video

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// listed is one job of GET /jobs.
type listed struct {
	ID       string
	QueueID  string `json:"queue_id"`
	Type     string
	Model    string
	Status   string
	Created  time.Time   `json:"created_at"`
	Price    json.Number `json:"price"`
	Refunded *bool       `json:"credits_refunded"`
}

// jobs lists the jobs of a key's account.
func (s *cinema) jobs(t *testing.T, key, query string) (list []listed, next string) {
	t.Helper()
	var page struct {
		Data []listed
		Next *string `json:"nextCursor"`
	}
	s.Must(200, "GET", "/jobs"+query, key, "", &page)
	if page.Data == nil {
		t.Errorf("%s: data is not a list", query)
	}
	if page.Next != nil {
		next = *page.Next
	}
	return page.Data, next
}

// "The answer to my order was lost. Where is my film?" The account's own jobs are listed,
// newest first, and no others.
func TestAnAccountFindsItsJobs(t *testing.T) {
	rig.OnBothStores(t, func(t *testing.T, store string) {
		s := startOn(t, store, "", "", "", "", "")
		key, other := s.account("finder"), s.account("neighbour")
		s.queue(t, other, `{"model":"by-second","prompt":"[[sim job=stuck]] x","duration":"5s"}`)
		var ids []string
		for i := range 5 {
			directive := []string{"job=stuck", "polls=0", "job=fail polls=0"}[i%3]
			model := []string{"movie", "by-piece"}[i%2]
			ids = append(ids, s.queue(t, key,
				fmt.Sprintf(`{"model":%q,"prompt":"[[sim %s]] x","duration":"5s"}`, model, directive)).ID)
		}
		var all []listed
		rig.Await(t, "the jobs are where they come to", func() bool {
			all, _ = s.jobs(t, key, "")
			settled := len(all) == 5
			for i, want := range []string{"completed", "processing", "failed", "completed", "processing"} {
				settled = settled && all[i].Status == want && all[i].Price != ""
			}
			return settled
		})
		for i, j := range all {
			price := rig.Exact(t, j.Price).String()
			if j.ID != ids[4-i] || j.QueueID != j.ID || j.Type != "video" || time.Since(j.Created) > time.Hour ||
				j.Model != []string{"by-second", "by-piece"}[i%2] || price != []string{"0.25", "0.085"}[i%2] ||
				(j.Refunded != nil) != (j.Status == "failed") || i > 0 && j.Created.After(all[i-1].Created) {
				t.Errorf("job %d is %+v", i, j)
			}
		}
		for query, want := range map[string]int{"?type=video": 5, "?type=music": 0, "?status=failed": 1, "?status=PROCESSING": 2,
			"?model=movie": 3, "?model=by-second": 3, "?model=by-piece": 2, "?model=nothing": 0,
			"?status=completed&model=by-piece": 1, "?limit=100": 5} {
			if list, next := s.jobs(t, key, query); len(list) != want || next != "" {
				t.Errorf("%s gives %d jobs, next %q", query, len(list), next)
			}
		}
		var paged []string
		for query := "?limit=2"; ; {
			list, next := s.jobs(t, key, query)
			for _, j := range list {
				paged = append(paged, j.ID)
			}
			if next == "" {
				break
			}
			query = "?limit=2&cursor=" + url.QueryEscape(next)
		}
		if len(paged) != 5 || paged[0] != ids[4] || paged[4] != ids[0] {
			t.Errorf("page by page it has %v", paged)
		}
		s.Must(200, "POST", "/video/complete", key, fmt.Sprintf(`{"model":"by-second","queue_id":%q}`, ids[0]), nil)
		if list, _ := s.jobs(t, key, ""); len(list) != 4 {
			t.Errorf("with one let go there are %d", len(list))
		}
		if list, _ := s.jobs(t, other, ""); len(list) != 1 {
			t.Errorf("the other account has %d jobs", len(list))
		}
		// A cursor of one account shows another one nothing of the first.
		_, next := s.jobs(t, key, "?limit=1")
		if list, _ := s.jobs(t, other, "?cursor="+next); len(list) != 1 || list[0].ID == ids[4] {
			t.Errorf("by another's cursor it has %+v", list)
		}
		for query, name := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit",
			"type=image": "type", "status=odd": "status", "cursor=": "cursor", "cursor=abc": "cursor", "limit=1&limit=2": "limit",
			"cursor=" + strings.Repeat("_", 32): "cursor", "model=" + strings.Repeat("x", 300): "model"} {
			if status, _, body := s.Get("/jobs?"+query, key); status != 400 || !strings.Contains(string(body), name) {
				t.Errorf("%s is %d %.200s", query, status, body)
			}
		}
		if status, _, body := s.Get("/jobs", ""); status != 401 {
			t.Errorf("without a key it is %d %s", status, body)
		}
	})
}

// Clients of the original service compare other words in the list, too.
func TestTheListSpellsStatesAsRetrieveDoes(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "compat: { job_status: upper }")
	key := s.account("upper")
	s.queue(t, key, `{"model":"by-second","prompt":"[[sim job=stuck]] x","duration":"5s"}`)
	if list, _ := s.jobs(t, key, "?status=processing"); len(list) != 1 || list[0].Status != "PROCESSING" {
		t.Errorf("the list is %+v", list)
	}
}
