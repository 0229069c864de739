package dialect

import "testing"

// A request that has the same member left out many times reports it once, and the list of
// one request is bounded.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	var l LeftOut
	if l.String() != "" {
		t.Errorf("nothing is left out as %q", l.String())
	}
	for range 100 {
		l.Add("context_management")
		l.Add("tools.web_search")
	}
	if got := l.String(); got != "context_management, tools.web_search" {
		t.Errorf("the list is %q", got)
	}
	for i := range 100 {
		l.Add(Omission(rune('a' + i)))
	}
	if len(l.All()) != maxOmissions {
		t.Errorf("the list has %d names", len(l.All()))
	}
}
