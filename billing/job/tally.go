package job

import (
	"fmt"
	"time"

	"farebox/billing/store"
)

const (
	// tallyEvery is how often the store counts jobs of other nodes, while jobs are sold
	// here; tallyAlone how often it does where there are no others.
	tallyEvery = 2 * time.Second
	tallyAlone = time.Minute
	// tallyOld is how old counts may be without a sale that waits for the store to count,
	// tallyWanted how long after a sale they are kept fresh.
	tallyOld    = 5 * time.Second
	tallyWanted = 30 * time.Second
)

// tally is how many jobs wait and how much media is kept. This node's jobs are counted
// at once; the rest the store has counted recently: it takes some ten milliseconds
// for ten thousand jobs, which no sale can wait for. Machine.mu guards it.
type tally struct {
	// Jobs that wait: those that have entries here, and those of other nodes.
	mine, theirs       map[uint32]int64
	allMine, allTheirs int64

	bytes    map[uint32]int64 // of media
	allBytes int64
	since    map[uint32]int64 // changes while the store counts; nil: it does not

	at     time.Time // when the store began to count
	wanted time.Time // by the last sale
}

// add counts a job that waits, or does no longer.
func (t *tally) add(account uint32, n int64) {
	t.allMine += n
	if t.mine[account] += n; t.mine[account] == 0 {
		delete(t.mine, account)
	}
}

// keep counts media that came, or went.
func (t *tally) keep(account uint32, n int64) {
	t.allBytes += n
	if t.bytes[account] += n; t.bytes[account] == 0 {
		delete(t.bytes, account)
	}
	if t.since != nil {
		t.since[account] += n
	}
}

// counts are an account's jobs and media, and those of all.
func (m *Machine) counts(account uint32) (store.JobCounts, error) {
	m.mu.Lock()
	m.tally.wanted = now()
	old := m.o.Shared && now().Sub(m.tally.at) > tallyOld
	m.mu.Unlock()
	if old {
		if err := m.count(tallyOld); err != nil {
			return store.JobCounts{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &m.tally
	return store.JobCounts{Waiting: t.mine[account] + t.theirs[account], AllWaiting: t.allMine + t.allTheirs,
		Bytes: t.bytes[account], AllBytes: t.allBytes}, nil
}

func (m *Machine) tallyEvery() time.Duration {
	if m.o.Shared {
		return tallyEvery
	}
	return tallyAlone
}

// recount is the chore that keeps counts fresh which sales want.
func (m *Machine) recount() {
	m.mu.Lock()
	wanted := now().Sub(m.tally.wanted) < max(tallyWanted, m.tallyEvery())
	m.mu.Unlock()
	if wanted {
		m.note(m.count(0))
	}
}

// count has the store count, unless it began to less than a time ago.
func (m *Machine) count(fresh time.Duration) error {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.mu.Lock()
	if fresh > 0 && now().Sub(m.tally.at) <= fresh { // another caller counted meanwhile
		m.mu.Unlock()
		return nil
	}
	began := now()
	m.tally.since = map[uint32]int64{}
	m.mu.Unlock()
	rows, err := m.o.Store.JobTally(m.o.Node)
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &m.tally
	since := t.since
	t.since = nil
	if err != nil {
		return fmt.Errorf("cannot count jobs: %w", err)
	}
	t.at, t.theirs, t.bytes, t.allTheirs, t.allBytes = began, map[uint32]int64{}, map[uint32]int64{}, 0, 0
	for _, r := range rows {
		if r.Waiting != 0 {
			t.theirs[r.Account] = r.Waiting
			t.allTheirs += r.Waiting
		}
		t.keep(r.Account, r.Bytes)
	}
	// It is not known whether the store has seen these: they are counted once too often
	// until it counts again, rather than once too seldom.
	for account, n := range since {
		t.keep(account, max(n, 0))
	}
	return nil
}

// addEntry takes an entry in. The caller has mu.
func (m *Machine) addEntry(e *entry) {
	m.entries[e.id] = e
	if e.waiting {
		m.tally.add(e.account, 1)
	}
}

// dropEntry drops an entry. The caller has mu.
func (m *Machine) dropEntry(e *entry) {
	if m.entries[e.id] == e {
		delete(m.entries, e.id)
		m.ended(e)
	}
}

// ended notes that a job waits no longer. The caller has mu.
func (m *Machine) ended(e *entry) {
	if e.waiting {
		e.waiting = false
		m.tally.add(e.account, -1)
	}
}
