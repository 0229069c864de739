package store

import (
	"testing"
	"time"

	"farebox/bench/servers"
)

// A node takes a question once, in time, and only if it is for this node.
func TestAQuestionIsTakenOnce(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	var nodes []*postgresStore
	for _, id := range []string{"a", "b", "c"} {
		s, err := OpenPostgres(address, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, _, err := s.Join(id, id, time.Minute); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, s)
	}
	ask := func(to uint32, ends time.Duration) int64 {
		t.Helper()
		no, err := nodes[0].Ask(to, []byte("what"), ends)
		if err != nil {
			t.Fatal(err)
		}
		return no
	}
	takes := func(i int, no int64) bool {
		t.Helper()
		body, ok, err := nodes[i].Take(no)
		if err != nil || ok && string(body) != "what" {
			t.Fatalf("%q, %v", body, err)
		}
		return ok
	}
	all := ask(0, time.Minute)
	if takes(0, all) || !takes(1, all) || takes(1, all) || !takes(2, all) {
		t.Error("expected b and c to take it, once each, and not the asker")
	}
	for range 2 {
		if err := nodes[1].Reply(all, []byte("that")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := nodes[0].Replies(all)
	if third, taken := list[3]; err != nil || string(list[2]) != "that" || !taken || third != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if err := nodes[0].Forget(all); err != nil {
		t.Fatal(err)
	}
	if err := nodes[2].Reply(all, []byte("late")); err != nil || takes(2, all) {
		t.Errorf("a question that is gone is answered: %v", err)
	}
	if one := ask(3, time.Minute); takes(1, one) || !takes(2, one) {
		t.Error("a question to c is for c alone")
	}
	if over := ask(0, -time.Second); takes(1, over) {
		t.Error("a question that is over is taken")
	}
}
