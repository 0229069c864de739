package tee

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/routes"
)

// answer is what is kept of an answer of an enclave, for its account.
type answer = billing.EnclaveAnswer

const (
	// freshFor is how long an enclave may take to have the signature of an answer.
	freshFor = 5 * time.Second
	// flushEvery is how long answers are gathered before they are written, and maxGathered
	// how many: they are not money, and one write for each would be dear.
	flushEvery  = 100 * time.Millisecond
	maxGathered = 4096
	// purgeEvery is how often old ones are looked for, whether new ones come or not.
	purgeEvery = time.Hour
	// maxKept is the largest signature that is kept.
	maxKept = 64 << 10
)

// answers gathers what is to be kept.
type answers struct {
	records routes.EnclaveAnswers
	log     zerolog.Logger

	mu       sync.Mutex
	gathered map[string]*answer // by account and id; nil: none
	due      bool
	lost     int64
}

func newAnswers(records routes.EnclaveAnswers, log zerolog.Logger) *answers {
	return &answers{records: records, log: log, gathered: map[string]*answer{}}
}

func keyOf(account, id string) string { return account + " " + id }

// add keeps an answer soon.
func (a *answers) add(c *routes.Call, of *routes.EnclaveAnswer) {
	if of.ID == "" || len(of.ID) > maxID {
		return
	}
	r := &answer{Account: c.Key.Account, ID: of.ID, Model: of.Target.Model.ID, Upstream: of.Target.Upstream.Name,
		UpstreamModel: of.Target.Name, Key: of.Key, Request: of.Request, Response: of.Response, At: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyOf(c.Key.Account.ID, of.ID)
	if a.gathered[key] != nil {
		r.Request, r.Response = [32]byte{}, [32]byte{} // of which of the two?
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

// lostSoFar is how many answers were not kept, since the store took none for too long.
func (a *answers) lostSoFar() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// flush writes what was gathered. What the store does not take is tried again.
func (a *answers) flush() {
	a.mu.Lock()
	list := slices.Collect(maps.Values(a.gathered))
	a.due = len(list) > 0
	a.mu.Unlock()
	if len(list) == 0 {
		return
	}
	err := a.records.AddEnclaveAnswers(list)
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

// written is for what the store has: it knows all of it. The caller has mu.
func (a *answers) written(r *answer) {
	if key := keyOf(r.Account.ID, r.ID); a.gathered[key] == r {
		delete(a.gathered, key)
	}
}

// purge lets old ones go every so often, until done.
func (a *answers) purge(done <-chan struct{}) {
	t := time.NewTicker(purgeEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			if err := a.records.PurgeEnclaveAnswers(); err != nil {
				a.log.Warn().Err(err).Msg("tee: old answers cannot be removed; this is tried again")
			}
		}
	}
}

// write has an answer be in the store before this returns, if it is still gathered.
func (a *answers) write(r *answer) error {
	a.mu.Lock()
	gathered := a.gathered[keyOf(r.Account.ID, r.ID)] == r
	a.mu.Unlock()
	if !gathered {
		return nil
	}
	return a.records.AddEnclaveAnswers([]*answer{r})
}

// find is an answer to the account of a request; nil: there is none of that id.
func (a *answers) find(c *routes.Call, id string) (*answer, error) {
	a.mu.Lock()
	r := a.gathered[keyOf(c.Key.Account.ID, id)]
	a.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := a.records.FindEnclaveAnswer(c.Key.Account, id)
	if errors.Is(err, store.ErrNoRow) {
		return nil, nil
	}
	return r, err
}

// keep keeps a signature beside its answer.
func (a *answers) keep(c *routes.Call, r *answer, signature []byte) {
	if len(signature) > maxKept {
		return
	}
	err := a.write(r)
	if err == nil {
		err = a.records.KeepEnclaveSignature(r, signature)
	}
	if err != nil {
		c.Logger().Warn().Err(err).Msg("tee: a signature cannot be kept; its enclave is asked again")
		return
	}
	a.mu.Lock()
	a.written(r)
	a.mu.Unlock()
}
