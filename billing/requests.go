package billing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"farebox/billing/store"
	"farebox/config"
)

// requestLog has the details of requests that the store does not have yet. Each account has a
// share of its own, so a flood by one displaces nothing of another. Until the next flush, an
// account has at most requestsEach rows and one that counts the others: failing faster writes
// no more.
type requestLog struct {
	keepUs  atomic.Int64 // 0: off
	maxRows atomic.Int64
	dropped atomic.Int64

	writing  sync.Mutex // of a flush; before mu
	mu       sync.Mutex
	accounts map[uint32]*requestShare
	waiting  int // rows
}

const (
	// requestsEach is how many rows an account has in a flush, besides the one that counts.
	requestsEach = 10
	// requestsAlike is how many of them may be of one kind. Rows of other kinds stay possible.
	requestsAlike = 3
	// requestsWaiting bounds the memory of all shares, at about 500 bytes a row.
	requestsWaiting = 16 << 10
	// requestsFlushed is how many rows go into one transaction. The others wait for the next.
	requestsFlushed = 1000
	// purgedRequests is how many rows one transaction removes.
	purgedRequests = 1000
	// codeMost is the length of the longest code or cause that is kept.
	codeMost = 64
)

// requestShare has the waiting rows of one account.
type requestShare struct {
	rows  []*store.RequestRow
	kinds map[requestKind]*tally
	more  *store.RequestRow // counts requests that have no row of their kind; the last of rows
}

type tally struct {
	n    int
	last *store.RequestRow
}

// requestKind has the common members of requests that count as alike.
type requestKind struct {
	key                      int64
	route, model, code, from string
	status                   int
}

// TakesRequest says whether details of a request are to be given to NoteRequest. Otherwise it is
// counted with those that are like it. r has the members of its kind: route, model, status, code, cause.
func (l *Ledger) TakesRequest(k *Key, r *store.RequestRow) bool {
	return l.takesRequest(k.Account.no, k.No, r)
}

// TakesRefused is TakesRequest for a key that may not be used.
func (l *Ledger) TakesRefused(k *RefusedKey, r *store.RequestRow) bool {
	return l.takesRequest(k.account, k.key, r)
}

func (l *Ledger) takesRequest(account uint32, key int64, r *store.RequestRow) bool {
	q := &l.requests
	if q.keepUs.Load() == 0 {
		return false
	}
	r.Account, r.Key, r.Code, r.Cause = account, key, word(r.Code), word(r.Cause)
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.accounts[r.Account]
	if s == nil {
		return q.room()
	}
	kind := kindOf(r)
	switch t := s.kinds[kind]; {
	case t != nil && t.n >= requestsAlike:
		t.last.Alike++
		return false
	case t == nil && s.more != nil:
		s.more.Alike++
		return false
	case len(s.rows) < requestsEach || t == nil:
		return q.room()
	default:
		t.last.Alike++
		return false
	}
}

// room says whether one more row may wait.
func (q *requestLog) room() bool {
	if q.waiting < requestsWaiting {
		return true
	}
	q.dropped.Add(1)
	return false
}

// NoteRequest keeps the details of a request that TakesRequest has asked for.
func (l *Ledger) NoteRequest(r *store.RequestRow) {
	// Their text may be part of an answer whose memory is used again.
	r.Code, r.Cause = strings.Clone(r.Code), strings.Clone(r.Cause)
	q := &l.requests
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(r)
}

func (q *requestLog) put(r *store.RequestRow) {
	s := q.accounts[r.Account]
	if s == nil {
		if q.accounts == nil {
			q.accounts = map[uint32]*requestShare{}
		}
		s = &requestShare{kinds: map[requestKind]*tally{}}
		q.accounts[r.Account] = s
	}
	kind := kindOf(r)
	switch t := s.kinds[kind]; {
	case t != nil && (t.n >= requestsAlike || len(s.rows) >= requestsEach):
		t.last.Alike += 1 + r.Alike
		return
	case t != nil:
		t.n, t.last = t.n+1, r
	case len(s.rows) < requestsEach:
		s.kinds[kind] = &tally{1, r}
	case s.more != nil:
		s.more.Alike += 1 + r.Alike
		return
	default:
		*r = store.RequestRow{ID: r.ID, AtUs: r.AtUs, Account: r.Account, Code: moreRequests, Alike: r.Alike, Refused: r.Refused}
		s.more = r
	}
	s.rows = append(s.rows, r)
	q.waiting++
}

// moreRequests is the code of a row that only counts: requests of several kinds.
const moreRequests = "MORE"

func kindOf(r *store.RequestRow) requestKind {
	return requestKind{r.Key, r.Route, r.Model, r.Code, r.Cause, r.Status}
}

// word is a code or cause that is one of ours, or looks like one: an upstream's may be any text.
func word(s string) string {
	if len(s) > codeMost {
		return "other"
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ' ') {
			return "other"
		}
	}
	return s
}

// RequestsDropped counts requests whose details found no room.
func (l *Ledger) RequestsDropped() int64 { return l.requests.dropped.Load() }

func (q *requestLog) configure(c *config.Requests) {
	q.keepUs.Store(c.Keep.Microseconds())
	q.maxRows.Store(int64(c.MaxRows))
}

// flush writes waiting rows, accounts in turn until the transaction is full. Rows that cannot
// be written wait for the next flush.
func (q *requestLog) flush(db store.Store) error {
	q.writing.Lock()
	defer q.writing.Unlock()
	q.mu.Lock()
	var batch []*store.RequestRow
	shares := map[uint32]*requestShare{}
	for number, s := range q.accounts {
		if len(batch)+len(s.rows) > requestsFlushed {
			break
		}
		batch = append(batch, s.rows...)
		shares[number] = s
		delete(q.accounts, number)
	}
	q.waiting -= len(batch)
	q.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := db.AddRequests(batch)
	if err != nil {
		q.putBack(shares)
	}
	return err
}

// putBack returns unwritten rows. Rows that arrived since count in the older share.
func (q *requestLog) putBack(shares map[uint32]*requestShare) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since := map[uint32]*requestShare{}
	if q.accounts == nil {
		q.accounts = map[uint32]*requestShare{}
	}
	for number, s := range shares {
		if later := q.accounts[number]; later != nil {
			since[number] = later
			q.waiting -= len(later.rows)
		}
		q.accounts[number] = s
		q.waiting += len(s.rows)
	}
	for _, later := range since {
		for _, r := range later.rows {
			q.put(r)
		}
	}
}

// purge removes rows that are too old, and then those beyond the bound: of the accounts that
// have the most.
func (q *requestLog) purge(db store.Store, nowUs int64) error {
	for {
		n, err := db.PurgeRequests(nowUs-q.keepUs.Load(), purgedRequests)
		if err != nil {
			return fmt.Errorf("cannot remove old details of requests: %w", err)
		}
		if n < purgedRequests {
			break
		}
	}
	counts, err := db.RequestsByAccount()
	if err != nil {
		return fmt.Errorf("cannot count the details of requests: %w", err)
	}
	level := fairLevel(slices.Collect(maps.Values(counts)), int(q.maxRows.Load()))
	for account, n := range counts {
		for n > level {
			gone, err := db.PurgeRequestsOf(account, min(n-level, purgedRequests))
			if err != nil {
				return fmt.Errorf("cannot remove details of requests: %w", err)
			}
			if gone == 0 {
				break
			}
			n -= gone
		}
	}
	return nil
}

// fairLevel is the most that each may have so that all together have at most so many.
func fairLevel(counts []int, most int) int {
	slices.Sort(counts)
	for i, n := range counts {
		if level := most / (len(counts) - i); n > level {
			return level
		}
		most -= n
	}
	return math.MaxInt
}

// flushRequests lets an operator see the requests of a moment ago.
func (l *Ledger) flushRequests() error {
	if l.journal == nil {
		return nil
	}
	for range requestsWaiting / requestsFlushed {
		if err := l.requests.flush(l.store); err != nil {
			return fmt.Errorf("cannot write the details of recent requests: %w", err)
		}
	}
	return nil
}

// purgeRequestsEvery is how many rounds of the keeper lie between two purges.
const purgeRequestsEvery = 60

// keepRequests is the keeper's part.
func (l *Ledger) keepRequests(round int) error {
	err := l.requests.flush(l.store)
	if err == nil && round%purgeRequestsEvery == 0 && !l.idle && l.requests.maxRows.Load() > 0 {
		err = l.requests.purge(l.store, l.clock().UnixMicro())
	}
	return err
}
