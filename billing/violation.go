package billing

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"farebox/billing/store"
)

// violations are the refusals by limits that the store does not have yet: a
// short ring for each account, since only the last ones are ever shown. Memory
// and writes stay bounded at any rate of refusals: an account has at most
// maxViolations in a flush, and a flush at most flushViolations.
type violations struct {
	writing  sync.RWMutex // held while a flush moves refusals to the store; before mu
	mu       sync.Mutex
	accounts map[uint32]*violationRing
}

const (
	// violationAccounts is how many accounts may wait for a flush; further ones
	// are not logged.
	violationAccounts = 4096
	// flushViolations is how many rows a flush writes; the rest waits.
	flushViolations = 2000
)

type violationRing struct {
	list [store.MaxViolations]store.Violation
	n    int // ever put in
}

func (r *violationRing) put(v store.Violation) {
	r.list[r.n%store.MaxViolations] = v
	r.n++
}

// all returns the rows in the ring, oldest first.
func (r *violationRing) all() []store.Violation {
	if r.n <= store.MaxViolations {
		return slices.Clone(r.list[:r.n])
	}
	at := r.n % store.MaxViolations
	return append(slices.Clone(r.list[at:]), r.list[:at]...)
}

// Violation is a refusal by a limit, as the owner of the account sees it.
type Violation struct {
	KeyID string
	Model string // or the subject of the limit
	Tier  string
	Kind  string // RPM RPH RPD RPMON TPM FAILED_REQUESTS UNSUPPORTED_FEATURE_REQUESTS ABORTED_REQUESTS
	At    time.Time
}

// Kinds of refusals besides rate limits (addendum 16.5).
const (
	FailedRequests      = "FAILED_REQUESTS"
	UnsupportedRequests = "UNSUPPORTED_FEATURE_REQUESTS"
	AbortedRequests     = "ABORTED_REQUESTS"
)

// NoteViolation puts a refusal into the log of the key's account.
func (l *Ledger) NoteViolation(k *Key, model, tier, kind string, nowNs int64) {
	v := &l.violations
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.accounts[k.Account.no]
	if r == nil {
		if len(v.accounts) >= violationAccounts {
			return
		}
		if v.accounts == nil {
			v.accounts = map[uint32]*violationRing{}
		}
		r = &violationRing{}
		v.accounts[k.Account.no] = r
	}
	r.put(store.Violation{Account: k.Account.no, TimeUs: nowNs / 1000, Key: k.No, KeyID: k.ID, Model: model, Tier: tier,
		Kind: kind})
}

// Violations are the last refusals of an account, newest first.
func (ac Accounts) Violations(a *AccountState) ([]Violation, error) {
	v := &ac.violations
	v.writing.RLock() // a refusal is either in memory or in the store
	defer v.writing.RUnlock()
	list, err := ac.store.Violations(a.no)
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	v.mu.Lock()
	if r := v.accounts[a.no]; r != nil {
		list = append(list, r.all()...)
	}
	v.mu.Unlock()
	slices.SortStableFunc(list, earlier)
	out := make([]Violation, 0, store.MaxViolations)
	for i := len(list) - 1; i >= 0 && len(out) < store.MaxViolations; i-- {
		v := &list[i]
		out = append(out, Violation{KeyID: v.KeyID, Model: v.Model, Tier: v.Tier, Kind: v.Kind,
			At: fromMicro(v.TimeUs)})
	}
	return out, nil
}

func earlier(x, y store.Violation) int { return cmp.Compare(x.TimeUs, y.TimeUs) }

// flush writes new rows. Rows that cannot be written stay, unless newer
// refusals of the account take their place.
func (v *violations) flush(db store.Store) error {
	v.writing.Lock()
	defer v.writing.Unlock()
	var batch []store.Violation
	v.mu.Lock()
	for number, r := range v.accounts {
		if list := r.all(); len(batch)+len(list) <= flushViolations {
			batch = append(batch, list...)
			delete(v.accounts, number)
		}
	}
	v.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	slices.SortStableFunc(batch, earlier)
	err := db.AddViolations(batch)
	if err != nil {
		v.putBack(batch)
	}
	return err
}

// putBack returns unwritten rows, before the rows that came in since.
func (v *violations) putBack(batch []store.Violation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	since := v.accounts
	v.accounts = map[uint32]*violationRing{}
	put := func(x store.Violation) {
		r := v.accounts[x.Account]
		if r == nil {
			r = &violationRing{}
			v.accounts[x.Account] = r
		}
		r.put(x)
	}
	for _, x := range batch {
		put(x)
	}
	for _, r := range since {
		for _, x := range r.all() {
			put(x)
		}
	}
}
