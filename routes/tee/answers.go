package tee

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/routes"
)

// answerKey names an answer: ids are unique for an account.
type answerKey struct {
	account uint32
	id      string
}

const (
	// freshFor is how long an enclave may take to sign an answer.
	freshFor = 5 * time.Second
	// flushEvery is how long answers are gathered before they are written, and maxGathered
	// how many: one write for each would be expensive.
	flushEvery  = 100 * time.Millisecond
	maxGathered = 4096
	// purgeEvery is how often old answers are removed without new ones, and purgeMost how
	// many in one transaction.
	purgeEvery = time.Hour
	purgeMost  = 1000
	// maxKept is the largest signature that is stored.
	maxKept = 64 << 10
)

// answers collects answers of enclaves for the store.
type answers struct {
	store store.EnclaveStore
	now   func() time.Time // of the store
	log   zerolog.Logger

	mu       sync.Mutex
	gathered map[answerKey]*store.EnclaveRow
	due      bool
	lost     int64
}

func newAnswers(s store.EnclaveStore, now func() time.Time, log zerolog.Logger) *answers {
	return &answers{store: s, now: now, log: log, gathered: map[answerKey]*store.EnclaveRow{}}
}

// add stores an answer to an account soon.
func (a *answers) add(account uint32, given *routes.EnclaveAnswer) {
	if given.ID == "" || len(given.ID) > maxID {
		return
	}
	r := &store.EnclaveRow{Account: account, ID: given.ID, Model: given.Target.Model.ID, Upstream: given.Target.Upstream.Name,
		Named: given.Target.Name, SealedTo: given.Key, Request: given.Request[:], Response: given.Response[:], AtUs: time.Now().UnixMicro()}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := answerKey{account, given.ID}
	if a.gathered[key] != nil {
		r.Request, r.Response = make([]byte, 32), make([]byte, 32) // one id for two answers: neither has sums
	} else if len(a.gathered) >= maxGathered {
		a.lost++
		return
	}
	a.gathered[key] = r
	if !a.due {
		a.due = true
		time.AfterFunc(flushEvery, a.flush)
	}
}

// lostSoFar counts the answers that were dropped while the store was down.
func (a *answers) lostSoFar() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// flush writes the gathered answers, and tries again after an error.
func (a *answers) flush() {
	a.mu.Lock()
	list := slices.Collect(maps.Values(a.gathered))
	a.due = len(list) > 0
	a.mu.Unlock()
	if len(list) == 0 {
		return
	}
	err := a.put(list)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.log.Warn().Err(err).Msg("tee: answers cannot be written down; this is tried again")
		time.AfterFunc(10*flushEvery, a.flush)
		return
	}
	for _, r := range list {
		a.written(r)
	}
	if a.due = len(a.gathered) > 0; a.due {
		time.AfterFunc(flushEvery, a.flush)
	}
}

// put writes answers to the store, and removes old ones.
func (a *answers) put(list []*store.EnclaveRow) error {
	if err := a.store.AddEnclaveAnswers(list); err != nil {
		return err
	}
	return a.removeOld()
}

func (a *answers) removeOld() error {
	for {
		n, err := a.store.PurgeEnclaveAnswers(a.now().UnixMicro(), purgeMost)
		if err != nil || n < purgeMost {
			return err
		}
	}
}

// written drops an answer that is in the store. The caller has mu.
func (a *answers) written(r *store.EnclaveRow) {
	if key := (answerKey{r.Account, r.ID}); a.gathered[key] == r {
		delete(a.gathered, key)
	}
}

// purge removes old answers every purgeEvery, until done.
func (a *answers) purge(done <-chan struct{}) {
	t := time.NewTicker(purgeEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			if err := a.removeOld(); err != nil {
				a.log.Warn().Err(err).Msg("tee: old answers cannot be removed; this is tried again")
			}
		}
	}
}

// write writes an answer to the store if it is still gathered.
func (a *answers) write(r *store.EnclaveRow) error {
	a.mu.Lock()
	gathered := a.gathered[answerKey{r.Account, r.ID}] == r
	a.mu.Unlock()
	if !gathered {
		return nil
	}
	return a.put([]*store.EnclaveRow{r})
}

// find finds an answer to an account; nil: the account has no answer with that id.
func (a *answers) find(account uint32, id string) (*store.EnclaveRow, error) {
	a.mu.Lock()
	r := a.gathered[answerKey{account, id}]
	a.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := a.store.EnclaveAnswer(account, id, a.now().UnixMicro())
	if errors.Is(err, store.ErrNoRow) {
		return nil, nil
	}
	return r, err
}

// keep stores the signature of an answer, which its enclave forgets sooner.
func (a *answers) keep(c *routes.Call, r *store.EnclaveRow, signature []byte) {
	if len(signature) > maxKept {
		return
	}
	err := a.write(r)
	if err == nil {
		err = a.store.KeepEnclaveSignature(r.Account, r.ID, signature)
	}
	if err != nil {
		c.Logger().Warn().Err(err).Msg("tee: a signature cannot be kept; its enclave is asked again")
		return
	}
	a.mu.Lock()
	a.written(r)
	a.mu.Unlock()
}
