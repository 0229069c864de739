package job

import (
	"testing"
	"testing/synctest"
	"time"

	"farebox/billing/store"
)

// A node that lost the job has its upstream stop it, because its client released it. The
// owner gets the failure, and the client pays the upstream's charge.
func TestAJobThatAnotherNodeStoppedIsNotRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, k, w := newTable(), &shelf{files: map[string][]byte{}}, newWorks("fails")
		other := &session{table: all}
		w.paid, w.failing = true, func(id string) {
			if _, err := other.ReleaseJob(id, time.Now().UnixMicro()); err != nil {
				t.Error(err)
			}
		}
		m := newMachine(&session{table: all}, w, k, 1, false)
		if err := m.Begin(); err != nil {
			t.Fatal(err)
		}
		queueID, _, _ := order(m, 1)
		time.Sleep(10 * time.Minute)
		if r, _ := other.Job(queueID); r.State != store.JobFailed || r.Owed || r.Code != "CANCELLED" || w.stops() != 1 {
			t.Errorf("%+v, stopped %d times", r, w.stops())
		}
		m.Close()
	})
}
