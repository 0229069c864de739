package job

import (
	"fmt"
	"testing"

	"farebox/billing/store"
)

// "I have two thousand songs and one video, and its page takes no longer than others." A
// page looks at a bounded number of jobs, and the next one continues there.
func TestAListLooksAtSoManyJobsAtATime(t *testing.T) {
	t.Parallel()
	all := newTable()
	m := newMachine(&session{table: all}, newWorks("never"), &shelf{files: map[string][]byte{}}, 1, false)
	const rare = 3*maxLooked/2 + 1
	for i := range 2 * maxLooked {
		r := &store.JobRow{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Kind: "music", Account: 1, State: store.JobRunning,
			CreatedUs: int64(10_000 - i/2)} // two at the same moment
		if i == rare {
			r.Kind = "video"
		}
		all.rows[r.ID] = r
	}
	videos := func(r *store.JobRow) bool { return r.Kind == "video" }
	var found []*View
	pages := 0
	for behind := (store.JobPlace{}); ; pages++ {
		list, next, err := m.List(1, behind, 10, videos)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list...)
		if behind = next; next == (store.JobPlace{}) {
			break
		}
	}
	if len(found) != 1 || pages != 2 {
		t.Errorf("%d jobs on %d pages with a next one", len(found), pages)
	}
	if list, _, err := m.List(2, store.JobPlace{}, 10, func(*store.JobRow) bool { return true }); err != nil || len(list) != 0 {
		t.Errorf("another account has %d jobs, %v", len(list), err)
	}
}
