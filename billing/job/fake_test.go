package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/config/asyncjob"
)

// table has the jobs of a store that nodes share.
type table struct {
	mu   sync.Mutex
	rows map[string]*store.JobRow
	dead map[uint32]bool // nodes whose session has ended
	// counted is the number of counts of all jobs.
	counted int
}

func newTable() *table { return &table{rows: map[string]*store.JobRow{}, dead: map[uint32]bool{}} }

var errAway = errors.New("the store is away")

// session is a process's way to the table. It dies before or after its nth write.
type session struct {
	*table
	writes, dies int
	after        bool // the last write succeeds
	died         func()
	gone         bool
}

// write changes the table, unless the process is dead.
func (s *session) write(do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errAway
	}
	s.writes++
	if s.writes == s.dies {
		s.gone = true
		if s.after {
			do()
		}
		if s.died != nil {
			go s.died()
		}
		return errAway
	}
	do()
	return nil
}

// written returns the number of attempted writes.
func (s *session) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *session) read(do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errAway
	}
	do()
	return nil
}

func (s *session) AddJob(r *store.JobRow, sinceUs int64) (was *store.JobRow, err error) {
	err = s.write(func() {
		for _, o := range s.rows {
			if o.Account == r.Account && o.Request == r.Request && o.CreatedUs >= sinceUs {
				c := *o
				was = &c
				return
			}
		}
		c := *r
		s.rows[r.ID] = &c
	})
	return was, err
}

func (s *session) DropJob(r *store.JobRow) (gone bool, err error) {
	err = s.write(func() {
		if o := s.rows[r.ID]; o == nil || o.Epoch == 1 {
			delete(s.rows, r.ID)
			gone = true
		}
	})
	return gone, err
}

func (s *session) Job(id string) (r *store.JobRow, err error) {
	err = s.read(func() {
		if o := s.rows[id]; o != nil {
			c := *o
			r = &c
		}
	})
	if err == nil && r == nil {
		err = store.ErrNoRow
	}
	return r, err
}

func (s *session) Jobs(account uint32, behind store.JobPlace, most int) (list []*store.JobRow, err error) {
	err = s.read(func() {
		for _, o := range s.rows {
			at := o.Place()
			if o.Account == account && (behind == store.JobPlace{} || at.CreatedUs < behind.CreatedUs ||
				at.CreatedUs == behind.CreatedUs && at.ID < behind.ID) {
				c := *o
				list = append(list, &c)
			}
		}
	})
	slices.SortFunc(list, func(a, b *store.JobRow) int {
		return cmp.Or(cmp.Compare(b.CreatedUs, a.CreatedUs), cmp.Compare(b.ID, a.ID))
	})
	return list[:min(most, len(list))], err
}

func left(r *store.JobRow) bool { return !r.State.Terminal() || r.Cancel || r.MediaType != "" }

func (s *session) JobsOf(owner uint32) (list []*store.JobRow, err error) {
	err = s.read(func() {
		for _, o := range s.rows {
			if o.Owner == owner && left(o) && (!o.State.Terminal() || o.Cancel || o.ReleasedUs != 0) {
				c := *o
				c.Order, c.Detail = nil, nil
				list = append(list, &c)
			}
		}
	})
	return list, err
}

func (s *session) UpdateJob(r *store.JobRow, from ...store.JobState) (ok bool, err error) {
	err = s.write(func() {
		o := s.rows[r.ID]
		if o == nil || o.Owner != r.Owner || o.Epoch != r.Epoch || !slices.Contains(from, o.State) {
			return
		}
		if o.State.Terminal() && r.State != o.State {
			panic("a job left a state that is terminal")
		}
		c := *r
		c.Owed = r.Owed || o.Owed
		c.ReleasedUs, r.ReleasedUs, c.PokedUs = o.ReleasedUs, o.ReleasedUs, o.PokedUs
		if r.Order == nil {
			c.Order = o.Order
		}
		if r.Detail == nil {
			c.Detail = o.Detail
		}
		s.rows[r.ID], ok = &c, true
	})
	return ok, err
}

func (s *session) ReleaseJob(id string, nowUs int64) (ok bool, err error) {
	err = s.write(func() {
		if o := s.rows[id]; o != nil && o.ReleasedUs == 0 {
			o.ReleasedUs, o.PokedUs, ok = nowUs, nowUs, true
		}
	})
	return ok, err
}

func (s *session) TakeJobs(owner uint32, own bool) (n int, err error) {
	err = s.write(func() {
		for _, o := range s.rows {
			if left(o) && (own && o.Owner == owner || o.Owner != owner && s.dead[o.Owner]) {
				o.Owner = owner
				o.Epoch++
				n++
			}
		}
	})
	return n, err
}

func (s *session) JobTally(owner uint32) (list []store.JobTally, err error) {
	sums := map[uint32]*store.JobTally{}
	err = s.read(func() {
		s.counted++
		for _, o := range s.rows {
			t := sums[o.Account]
			if t == nil {
				t = &store.JobTally{Account: o.Account}
				sums[o.Account] = t
			}
			if !o.State.Terminal() && o.Owner != owner {
				t.Waiting++
			}
			if o.MediaType != "" {
				t.Bytes += o.MediaBytes
			}
		}
	})
	for _, t := range sums {
		list = append(list, *t)
	}
	return list, err
}

func (s *session) PokeJob(id string, nowUs int64) error {
	return s.write(func() {
		if o := s.rows[id]; o != nil && o.PokedUs == 0 {
			o.PokedUs = nowUs
		}
	})
}

func (s *session) PokedJobs(owner uint32) (list []*store.JobRow, err error) {
	err = s.read(func() {
		for _, o := range s.rows {
			if o.Owner == owner && o.PokedUs != 0 {
				c := *o
				o.PokedUs, c.Order, c.Detail = 0, nil, nil
				list = append(list, &c)
			}
		}
	})
	return list, err
}

func (s *session) FinishedTimes(string, int) ([]time.Duration, error) { return nil, nil }

func (s *session) ExpiredJobs(owner uint32, nowUs int64, most int) (list []*store.JobRow, err error) {
	err = s.read(func() {
		for _, o := range s.rows {
			if o.Owner == owner && o.State.Terminal() && o.MediaType != "" && o.ExpiresUs <= nowUs && len(list) < most {
				c := *o
				list = append(list, &c)
			}
		}
	})
	return list, err
}

func (s *session) PurgeJobs(int64, int) (int, error) { return 0, nil }

// works is an upstream. It counts the jobs that it takes, polls and stops.
type works struct {
	mu       sync.Mutex
	jobs     map[string]int // how often each was taken
	polled   int
	stopped  int
	makes    time.Duration // how long it takes
	keys     bool          // it takes an order once for a key
	began    map[string]time.Time
	how      string // see submit and Poll
	once     bool   // it answers with the result at once
	tries    map[string]int
	blocked  chan struct{} // Fetch waits for it
	fetching chan struct{} // and says so
	ordered  func(order []byte)
	failing  func(id string) // before it says that a job failed
	paid     bool            // it charges for jobs that it stops
}

func newWorks(how string) *works {
	return &works{jobs: map[string]int{}, began: map[string]time.Time{}, how: how, makes: 90 * time.Second,
		tries: map[string]int{}, once: how == "at once", keys: how == "again" || how == "keys"}
}

func (w *works) AtOnce(string, string) bool { return w.once }

func (w *works) Submit(ctx context.Context, t asyncjob.Task) (*asyncjob.Submitted, error) {
	if !t.Asking("u", "t", w.keys) {
		return nil, &asyncjob.Refused{Status: 503, Code: "MODEL_OFFLINE", Message: "Not now."}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries[t.ID]++
	if w.ordered != nil {
		w.ordered(t.Order)
	}
	taken := func() {
		if w.jobs[t.ID] == 0 || !w.keys {
			w.jobs[t.ID]++
		}
		if w.began[t.ID].IsZero() {
			w.began[t.ID] = time.Now()
		}
	}
	switch {
	case w.how == "refuses":
		return nil, &asyncjob.Refused{Status: 422, Code: "CONTENT", Message: "No."}
	case w.how == "hangs up":
		taken()
		return nil, &asyncjob.Unknown{Upstream: "u", Target: "t", Err: io.ErrUnexpectedEOF}
	case w.how == "again" && w.tries[t.ID] < 3:
		taken()
		return nil, &asyncjob.Unknown{Upstream: "u", Target: "t", Again: true, Err: io.ErrUnexpectedEOF}
	case w.how == "panics":
		panic("no")
	case w.once:
		taken()
		return &asyncjob.Submitted{Upstream: "u", Target: "t", Done: &asyncjob.Status{Done: true,
			Body: io.NopCloser(strings.NewReader("sound")), Type: "audio/mpeg"}}, nil
	}
	taken()
	return &asyncjob.Submitted{Upstream: "u", Target: "t", Handle: []byte("handle of " + t.ID)}, nil
}

func (w *works) Poll(_ context.Context, t asyncjob.Task) (*asyncjob.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled++
	switch {
	case w.how == "forgets" && w.polled > 3:
		return nil, errors.New("404")
	case w.how == "never":
		return &asyncjob.Status{Progress: -1}, nil
	case time.Since(w.began[t.ID]) < w.makes:
		return &asyncjob.Status{Progress: 50}, nil
	case w.how == "fails":
		if w.failing != nil {
			w.failing(t.ID)
		}
		return &asyncjob.Status{Failed: &asyncjob.Refused{Status: 500, Code: "BROKE", Message: "It broke.", Suggestion: "s",
			Recommend: "r"}}, nil
	}
	return &asyncjob.Status{Done: true, Result: []byte("there")}, nil
}

func (w *works) Cancel(context.Context, asyncjob.Task) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped++
	return !w.paid, nil
}

// stops is the number of cancels.
func (w *works) stops() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

func (w *works) Fetch(ctx context.Context, t asyncjob.Task, _ []byte) (io.ReadCloser, string, error) {
	if w.blocked != nil {
		w.fetching <- struct{}{}
		<-w.blocked
	}
	switch w.how {
	case "lies":
		return io.NopCloser(strings.NewReader("<html>")), "text/html", nil
	case "breaks off":
		return io.NopCloser(io.MultiReader(strings.NewReader("so"), &broken{})), "audio/mpeg", nil
	}
	return io.NopCloser(strings.NewReader("sound")), "audio/mpeg", nil
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// shelf is a media store.
type shelf struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *shelf) Put(_ context.Context, id string, body io.Reader, _ string, most int64) (int64, error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return 0, err
	}
	if int64(len(b)) > most {
		return 0, asyncjob.ErrUnfit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[id] = bytes.Clone(b)
	return int64(len(b)), nil
}

// count returns the number of its files.
func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

func (s *shelf) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, id)
	return nil
}

var testTerms = Terms{PollMin: time.Second, PollMax: time.Minute, Timeout: time.Hour, PerAccount: 1000, Total: 100_000,
	Keep: 24 * time.Hour, AccountBytes: 1 << 30, TotalBytes: 1 << 30, MaxBytes: 1 << 20}

func newMachine(s Store, w Maker, k Keeper, node uint32, shared bool) *Machine {
	return New(Options{Store: s, Maker: w, Keeper: k, Node: node, Shared: shared, Terms: testTerms, Log: zerolog.Nop()})
}

// kill leaves a machine as a process that died does: it has no effect any more.
func (m *Machine) kill() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
}

// order sells a job as the routes do. sold reports whether the client got its id.
func order(m *Machine, n byte) (queueID string, out Outcome, sold bool) {
	return orderOf(m, n, []byte("order"))
}

// orderOf is order with the given text of the job's order.
func orderOf(m *Machine, n byte, what []byte) (queueID string, out Outcome, sold bool) {
	row := &store.JobRow{ID: id{15: n, 6: 0x40}.String(), Kind: "music", Model: "song", Account: 1,
		Request: [16]byte{n}, Owner: m.o.Node, Epoch: 1, Node: m.o.Node, Hold: uint64(n), State: store.JobSubmitting,
		CreatedUs: time.Now().UnixMicro(), Order: what}
	room, err := m.Reserve(1)
	if err != nil {
		return row.ID, out, false
	}
	defer room.Give()
	was, err := m.Sell(row, 0)
	if err != nil || was != nil {
		return row.ID, out, was != nil
	}
	return row.ID, m.Submit(row, room), true
}
