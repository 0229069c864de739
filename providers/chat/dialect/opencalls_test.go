package dialect

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// In any order of calls and results, a result belongs to the first call with its id that has none.
func TestResultsFindTheFirstOpenCall(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o OpenCalls
		var ids []string // of the open calls; empty: answered
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "id"))
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				o.Clear()
				ids = nil
			case 1, 2, 3, 4:
				o.Add([]byte(id))
				ids = append(ids, id)
			default:
				want := -1
				for i, open := range ids {
					if open == id {
						ids[i], want = "", i
						break
					}
				}
				if got := o.Answer([]byte(id)); got != want {
					t.Fatalf("the result of %s belongs to call %d, expected %d", id, got, want)
				}
			}
			first := -1
			for i, open := range ids {
				if open != "" {
					first = i
					break
				}
			}
			if got := o.Open(); got != first {
				t.Fatalf("call %d is the first open one, expected %d", got, first)
			}
		}
	})
}
