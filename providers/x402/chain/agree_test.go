package chain

import (
	"errors"
	"testing"
)

// A view counts when more nodes have it than any other.
func TestMajorityIsOfTheMost(t *testing.T) {
	failed := view[int]{err: errors.New("no")}
	says := func(list ...int) (views []view[int]) {
		for _, n := range list {
			views = append(views, view[int]{says: n}, failed)
		}
		return views
	}
	same := func(a, b int) bool { return a == b }
	for _, c := range []struct {
		views []view[int]
		size  int
		most  bool
	}{
		{nil, 0, false}, {says(), 0, false}, {[]view[int]{failed}, 0, false}, {says(1), 1, true}, {says(1, 2), 1, false},
		{says(1, 2, 1), 2, true}, {says(2, 1, 1), 2, true}, {says(1, 1, 2, 2), 2, false}, {says(1, 2, 2, 1, 2), 3, true},
		{says(1, 2, 3, 3), 2, true},
	} {
		if group, most := majority(c.views, same); len(group) != c.size || most != c.most {
			t.Errorf("%v: %v %v", c.views, group, most)
		}
	}
}
