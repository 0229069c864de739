package job

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
)

// "We paid for a film that a customer got back, and found nothing in the log": a process logs the
// alarm before it gives the job up. After its death the next process finds an ended job and logs
// nothing.
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
		s.dies = s.writes + 1 // the failure is written, and its process gets no answer
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
