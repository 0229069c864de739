package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
)

// "The process was killed while its sale was about to commit. The next one saw no job and
// charged nothing, and then the job came."
func TestSaleThatIsAboutToCommitIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := openNode(t, servers.Database(t), "node")
	c := &conform{Store: s, shared: s, t: t, b: NewBatch()}
	a := c.account("a", money.Parts{})
	for i, ask := range []func(r *JobRow) (bool, error){
		func(r *JobRow) (bool, error) { return s.JobSold(r.Node, r.Hold) },
		s.DropJob,
	} {
		row := jobRow(fmt.Sprint("j", i), a, 7, uint64(i+1))
		begun, err := s.writer.Begin()
		if err != nil {
			t.Fatal(err)
		}
		add := &tx{Tx: begun, Query: Query{s: s.sqlStore, ctx: context.Background(), db: s.writer, tx: begun}}
		if n, err := addJob.exec(add, row); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		answer := make(chan bool, 1)
		go func() {
			found, err := ask(row)
			if err != nil {
				t.Error(err)
			}
			answer <- found
		}()
		for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
			select {
			case found := <-answer:
				t.Fatalf("answered %t before the sale was decided", found)
			default:
			}
			if err := s.reader.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND " +
				"wait_event_type = 'Lock'").Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
		if err := begun.Commit(); err != nil {
			t.Fatal(err)
		}
		if !<-answer {
			t.Errorf("%d: the sale was not seen", i)
		}
	}
	if n, err := value[int](s.sqlStore, "SELECT count(*) FROM job"); n != 1 || err != nil {
		t.Errorf("%d rows are left (%v)", n, err)
	}
}
