package job

import (
	"container/heap"
	"encoding/hex"
	"runtime/debug"
	"time"

	"farebox/billing/store"
)

// id is a UUID in a form that costs a map little.
type id [16]byte

// parseID reads a queue_id, which is written in one way only.
func parseID(text string) (out id, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return out, false
	}
	var digits [32]byte
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f':
			digits[n] = c
			n++
		default:
			return out, false
		}
	}
	_, err := hex.Decode(out[:], digits[:n])
	return out, err == nil
}

func (i id) String() string {
	var b [36]byte
	hex.Encode(b[:8], i[:4])
	hex.Encode(b[9:13], i[4:6])
	hex.Encode(b[14:18], i[6:8])
	hex.Encode(b[19:23], i[8:10])
	hex.Encode(b[24:], i[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// targetKey is where jobs are made: a model of ours at a target. Jobs share theirs.
type targetKey struct{ kind, model, upstream, target string }

// nextStep is the next step of a job.
type nextStep uint8

const (
	ask     nextStep = iota // its state at its upstream
	submit                  // that its upstream is asked for it
	fetch                   // its media are fetched
	cancel                  // the upstream is to stop
	discard                 // its media are deleted
)

// entry is the machine's memory of a job: a few hundred bytes, whatever the size
// of its order. Machine.mu guards it; but the taker of its step reads the fields
// that do not change meanwhile.
type entry struct {
	id       id
	place    *targetKey
	handle   []byte
	result   []byte // where the media are, while they are fetched
	epoch    int64
	account  uint32
	next     nextStep
	progress int8 // as its upstream says; -1: it does not
	busy     bool // a step is being taken, or waits for room
	released bool // its customer let it go
	waiting  bool // it has not ended, and counts in the tally
	poked    bool // a client asked for its state while a step was under way
	failures uint16
	created  time.Time // when it was sold
	begun    time.Time // when its upstream took it
	asked    time.Time // when its upstream was asked last
	due      time.Time
	slot     int // in the heap; -1: it is not there

	chore func() // of no job
	every time.Duration
}

// timerHeap has the entries by their due times, the soonest first.
type timerHeap []*entry

func (t timerHeap) Len() int           { return len(t) }
func (t timerHeap) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t timerHeap) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

// Push and Pop are for package heap.
func (t *timerHeap) Push(x any) {
	e := x.(*entry)
	e.slot = len(*t)
	*t = append(*t, e)
}

func (t *timerHeap) Pop() any {
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	e.slot = -1
	return e
}

func (t *timerHeap) add(e *entry) { heap.Push(t, e) }

func (t *timerHeap) remove(e *entry) {
	if e.slot >= 0 {
		heap.Remove(t, e.slot)
	}
}

// stepLimiter is steps of one kind that share a bound.
type stepLimiter struct {
	most    int
	working int
	queue   []*entry
}

// turn is the scheduler's goroutine.
func (m *Machine) turn() {
	defer m.steps.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(m.dispatch())
		select {
		case <-timer.C:
		case <-m.wake:
		case <-m.ctx.Done():
			return
		}
	}
}

// gather is how far apart the scheduler's turns are, where the operator's least interval is not
// shorter than ten of them: steps of many jobs are taken together then. To wake an idle
// process for each of ten thousand jobs took more than half of the CPU time of polling.
const gather = 100 * time.Millisecond

// together puts a wait off to the next turn of the scheduler.
func (m *Machine) together(wait time.Duration) time.Duration {
	every := min(gather, m.terms.Load().PollMin/10)
	if every < time.Millisecond {
		return wait
	}
	at := now().Add(wait)
	return wait + at.Truncate(every).Add(every).Sub(at)
}

// dispatch starts the due steps and returns the time until the next one.
func (m *Machine) dispatch() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.due) > 0 {
		e := m.due[0]
		if wait := e.due.Sub(now()); wait > 0 {
			return m.together(wait)
		}
		heap.Pop(&m.due)
		e.busy = true
		m.start(e)
	}
	return time.Hour
}

// start takes a step, or puts it where steps wait. The caller has mu.
func (m *Machine) start(e *entry) {
	l := m.limiterOf(e)
	if l.working >= l.most || m.working >= maxWorking {
		if l.queue = append(l.queue, e); len(l.queue) == 1 {
			m.queued = append(m.queued, l)
		}
		return
	}
	l.working++
	m.working++
	m.steps.Add(1)
	go m.work(e, l)
}

// limiterOf is the limiter that a step counts in. A step without an upstream has one of its
// own. The caller has mu.
func (m *Machine) limiterOf(e *entry) *stepLimiter {
	name, most := "", placeWorking
	if e.chore == nil {
		switch e.next {
		case submit:
			name, most = "submit", makeWorking
		case fetch:
			name, most = "fetch", fetchWorking
		default:
			name = "/" + e.place.upstream
		}
	}
	return m.limiter(name, most)
}

func (m *Machine) limiter(name string, most int) *stepLimiter {
	l := m.lanes[name]
	if l == nil {
		l = &stepLimiter{most: most}
		m.lanes[name] = l
	}
	return l
}

// work takes one step and gives its room to the next.
func (m *Machine) work(e *entry, l *stepLimiter) {
	defer m.steps.Done()
	next := retire
	defer func() {
		if v := recover(); v != nil {
			m.stats.panics.Add(1)
			m.o.Log.Error().Interface("panic", v).Bytes("stack", debug.Stack()).Str("queue_id", e.id.String()).
				Msg("jobs: a step panicked; it is taken again")
			next = jitter(m.terms.Load().PollMax)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.after(e, next)
		l.working--
		m.working--
		m.admit()
	}()
	if m.ctx.Err() != nil {
		return
	}
	if e.chore != nil {
		next = jitter(e.every)
		e.chore()
		return
	}
	next = m.step(e)
}

// retire is the result of a step that leaves nothing to do.
const retire time.Duration = -1

// after puts an entry back, or forgets it. The caller has mu.
func (m *Machine) after(e *entry, next time.Duration) {
	e.busy = false
	if m.closed || e.chore == nil && m.entries[e.id] != e { // or this is an older one of its job
		return
	}
	if next == retire {
		m.dropEntry(e)
		return
	}
	if e.poked {
		e.poked, next = false, min(next, pokeEvery)
	}
	e.due = now().Add(next)
	m.due.add(e)
	m.rearm(e)
}

// admit starts steps that wait for room. The caller has mu.
func (m *Machine) admit() {
	for i := 0; i < len(m.queued) && m.working < maxWorking; {
		l := m.queued[i]
		for len(l.queue) > 0 && l.working < l.most && m.working < maxWorking {
			e := l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
			l.working++
			m.working++
			m.steps.Add(1)
			go m.work(e, l)
		}
		if len(l.queue) > 0 {
			i++
			continue
		}
		l.queue = nil
		m.queued = append(m.queued[:i], m.queued[i+1:]...)
	}
}

// rearm has the scheduler look again where an entry came to its top. The caller has mu.
func (m *Machine) rearm(e *entry) {
	if e.slot != 0 {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// pokeEvery is how often a job's upstream is asked at most for the sake of clients.
const pokeEvery = time.Second

// Poke has an upstream asked soon for the state of a job, by the node that owns the job.
func (m *Machine) Poke(queueID string) {
	key, ok := parseID(queueID)
	if !ok || m.notify(key) || !m.o.Shared {
		return
	}
	m.note(m.o.Store.PokeJob(queueID, now().UnixMicro()))
}

// notify is Poke for a job of this node. False if it is not one of ours.
func (m *Machine) notify(key id) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e != nil && e.next == ask {
		m.advance(e, e.asked.Add(pokeEvery))
	}
	return e != nil
}

// advance makes an entry due at a time, if that is sooner. The caller has mu.
func (m *Machine) advance(e *entry, at time.Time) {
	switch {
	case e.busy:
		e.poked = true
	case e.slot >= 0 && at.Before(e.due):
		m.due.remove(e)
		e.due = at
		m.due.add(e)
		m.rearm(e)
	}
}

// placeOf is the place of a row. The caller has mu.
func (m *Machine) placeOf(r *store.JobRow) *targetKey {
	at := targetKey{r.Kind, r.Model, r.Upstream, r.Target}
	p := m.places[at]
	if p == nil {
		p = &at
		m.places[at] = p
	}
	return p
}
