package job

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
)

// "We paid for a film that a customer got back, and found nothing in the log": whoever
// gives a job up says so first, since a process that dies behind that leaves a job that has
// ended, about which the next one says nothing.
func TestAnAlarmOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("never")
		var log strings.Builder
		s := &session{table: all, after: true}
		m := New(Options{Store: s, Maker: w, Keeper: k, Node: 1, Terms: testTerms, Log: zerolog.New(&log)})
		s.died = m.kill
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		s.mu.Lock()
		s.dies = s.writes + 1 // that it failed is written down, and its process does not hear of it
		s.mu.Unlock()
		time.Sleep(2 * testTerms.Timeout)
		synctest.Wait()
		if r := all.rows[queueID]; r.State != store.JobFailed || !r.Owed {
			t.Fatalf("it is %+v", r)
		}
		if n := strings.Count(log.String(), `"queue_id":"`+queueID+`"`); n != 1 ||
			!strings.Contains(log.String(), "may charge for") {
			t.Errorf("the log says %s", log.String())
		}
		m.Close()
	})
}
