package tee

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/background"
	"farebox/providers/tee/gpu"
	"farebox/providers/tee/seal"
	"farebox/providers/wallet"
)

// Enclave is one target of a model, with its latest proof.
type Enclave struct {
	Model    string // the public id
	Upstream *Upstream
	Name     string // of the upstream, for logs and metrics
	Policy   *Policy

	mu       sync.Mutex
	now      EnclaveStatus
	keys     map[string]time.Time // proven, of 130 digits, and when
	address  [20]byte             // of the signer, as proven last
	betrayed time.Time            // when it answered in the clear; zero: never, or verified since
	plain    int64                // how often it did
	hasGPU   bool                 // it has proven to have graphics processors
	asked    time.Time            // when it was asked last because of a key that was not known
	under    chan struct{}        // closed when the attestation that is under way ends; nil: none runs
	wake     chan struct{}        // has it attested soon
}

// EnclaveStatus is the result of an enclave's last attestation.
type EnclaveStatus struct {
	At       time.Time // zero: never
	Verified bool
	Until    time.Time
	Failed   []string // names of the checks that did not hold, or unreachable
	// NotChecked are names of the checks that were not made.
	NotChecked []string
	Status     string // of the platform
	Turned     time.Time
}

// Expected is the policy for the enclave, which includes graphics processors once it has
// proven to have some.
func (e *Enclave) Expected() *Policy {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hasGPU || e.Policy.HasGPU {
		return e.Policy
	}
	p := *e.Policy
	p.HasGPU = true
	return &p
}

const (
	// keyLife is how long a key counts as proven, maxEnclaveKeys how many of one target
	// are kept: several enclaves may be behind it.
	keyLife        = 24 * time.Hour
	maxEnclaveKeys = 64
	// learnApart is how often a target is asked because a client names an unknown key.
	learnApart = 10 * time.Second
	// stale is how many rechecks may fail before a verified enclave loses its status.
	stale = 3
)

// Unreachable is the name of the failure if nothing could be judged.
const Unreachable = "unreachable"

// GoOn takes over the proof of the same enclave under an earlier config; nil: nothing.
func (e *Enclave) GoOn(before *Enclave) {
	if before == nil {
		return
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	e.now, e.keys, e.betrayed, e.address = before.now, maps.Clone(before.keys), before.betrayed, before.address
	e.plain, e.hasGPU = before.plain, before.hasGPU
}

// Watch attests each enclave again and again for ourselves, in a slot of its own, so that
// no client can block that.
type Watch struct {
	Judge   *Judge
	Every   time.Duration
	Enforce bool
	Log     zerolog.Logger

	each []*Enclave
	work background.Work
}

// Over gives the Watch its enclaves. From here on it can be asked about them: requests may
// be there before Begin.
func (w *Watch) Over(each []*Enclave) {
	w.each = each
	for _, e := range each {
		if e.keys == nil {
			e.keys = map[string]time.Time{}
		}
		e.wake = make(chan struct{}, 1)
	}
}

// Begin starts to follow them.
func (w *Watch) Begin() {
	for _, e := range w.each {
		w.work.Go(func() { w.follow(e) })
	}
}

// Close ends it, and waits.
func (w *Watch) Close() { w.work.Close() }

// follow attests an enclave every so often; sooner while it is not verified.
func (w *Watch) follow(e *Enclave) {
	for wait := e.rest(w); ; {
		t := time.NewTimer(wait)
		select {
		case <-w.work.Closing():
			t.Stop()
			return
		case <-e.wake:
			t.Stop()
			if !w.work.Sleep(min(w.Every, soon)) {
				return
			}
		case <-t.C:
		}
		w.Look(e)
		if wait = w.Every / 10; e.Standing().Verified {
			wait = e.rest(w)
		}
		wait = max(wait, soon)
	}
}

// soon is the wait before an enclave that has betrayed a chat is attested, and the least
// time between two attestations.
const soon = time.Second

// rest is how long the last proof, maybe of another config, stays good.
func (e *Enclave) rest(w *Watch) time.Duration {
	s := e.Standing()
	if !s.Verified {
		return 0
	}
	now := w.Judge.Now()
	return max(0, min(w.Every-now.Sub(s.At), s.Until.Sub(now)))
}

// Look attests an enclave for ourselves. A caller that calls while another attestation is under
// way waits for that one.
func (w *Watch) Look(e *Enclave) {
	e.mu.Lock()
	if over := e.under; over != nil {
		e.mu.Unlock()
		select {
		case <-over:
		case <-w.work.Closing():
		}
		return
	}
	over := make(chan struct{})
	e.under = over
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.under = nil
		e.mu.Unlock()
		close(over)
	}()
	var nonce [32]byte
	rand.Read(nonce[:]) // never fails
	ctx, cancel := context.WithTimeout(w.work.Context(), e.Upstream.Timeout)
	defer cancel()
	candidates, err := w.report(e, nonce)
	if w.work.Context().Err() != nil {
		return
	}
	if err != nil {
		w.missed(e, err)
		return
	}
	_, v, tried := w.Judge.First(ctx, candidates, nonce, e.Expected())
	if v.unjudged() {
		w.missed(e, gpu.ErrAway)
		return
	}
	w.Note(e, v)
	// Others are behind the same upstream. Clients may have the key of any of them, from
	// another node.
	for _, raw := range candidates[tried:] {
		w.NoteClients(e, w.Judge.Verify(ctx, raw, nonce, e.Expected()))
	}
}

// report asks for one, unless the Watch ends first.
func (w *Watch) report(e *Enclave, nonce [32]byte) ([][]byte, error) {
	type answer struct {
		candidates [][]byte
		err        error
	}
	said := make(chan answer, 1)
	go func() {
		a := answer{err: ErrAnswer}
		defer func() {
			if recover() != nil { // its report made our code panic
				a = answer{err: ErrAnswer}
			}
			said <- a
		}()
		a.candidates, a.err = e.Upstream.Report(nil, nonce)
	}()
	select {
	case a := <-said:
		return a.candidates, a.err
	case <-w.work.Closing():
		return nil, w.work.Context().Err()
	}
}

// missed is for an attestation without a result, since the enclave or NVIDIA's service does
// not answer: an enclave that was verified stays so for a while.
func (w *Watch) missed(e *Enclave, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := w.Judge.Now()
	if e.now.holds(now, w.Every) {
		w.Log.Warn().Err(err).Str("model", e.Model).Str("upstream", e.Name).
			Msg("tee: an enclave could not be attested again; its last attestation stays valid for a while")
		return
	}
	failed := Unreachable
	if errors.Is(err, gpu.ErrAway) {
		failed = CheckJudged
	}
	e.turn(w, EnclaveStatus{At: now, Failed: []string{failed}})
}

// Note stores the proof of an enclave, made for us or for a client.
func (w *Watch) Note(e *Enclave, v *Verification) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := EnclaveStatus{At: v.At, Verified: v.Verified(), Until: v.Until, Failed: v.Failed(), NotChecked: v.NotChecked()}
	if v.verdict != nil {
		s.Status = v.verdict.Status
	}
	if s.Verified {
		if e.address = v.Address; v.At.After(e.betrayed) {
			e.betrayed = time.Time{}
		}
		if v.Key != nil {
			e.learn(v.Key.String(), v.At)
		}
		e.hasGPU = e.hasGPU || v.Holds(CheckDevices)
	}
	e.turn(w, s)
}

// NoteClients stores an enclave's proof for a client, or for another enclave's check. It
// can add a key, but not change the status: a client could do that with its own nonces and
// delayed answers.
func (w *Watch) NoteClients(e *Enclave, v *Verification) {
	if v.Verified() && v.Key != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.learn(v.Key.String(), v.At)
	}
}

// turn sets the status, and logs a change. The caller has mu.
func (e *Enclave) turn(w *Watch, s EnclaveStatus) {
	s.Turned = e.now.Turned
	turned := e.now.At.IsZero() || e.now.Verified != s.Verified
	if turned {
		s.Turned = s.At
	}
	if turned || s.Verified && !slices.Equal(e.now.NotChecked, s.NotChecked) {
		event := w.Log.Info()
		if !s.Verified {
			event = w.Log.Error()
		}
		event.Str("model", e.Model).Str("upstream", e.Name).Bool("verified", s.Verified).Strs("failed", s.Failed).
			Strs("not_checked", s.NotChecked).Str("tcb_status", s.Status).Msg("tee: the verdict about an enclave")
	}
	e.now = s
}

// learn stores a key; the oldest is dropped if there are too many. The caller has mu.
func (e *Enclave) learn(key string, at time.Time) {
	if _, known := e.keys[key]; !known && len(e.keys) >= maxEnclaveKeys {
		oldest := ""
		for k, t := range e.keys {
			if oldest == "" || t.Before(e.keys[oldest]) {
				oldest = k
			}
		}
		delete(e.keys, oldest)
	}
	e.keys[key] = at
}

// Standing is the current status.
func (e *Enclave) Standing() EnclaveStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// Counts are how many keys it has proven, and how often it answered a sealed chat in the
// clear.
func (e *Enclave) Counts() (keys int, plain int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.keys), e.plain
}

// Ready says whether an enclave may be asked: it is verified now, or the policy does
// not enforce that. One that answered in the clear may not until it is verified again.
func (w *Watch) Ready(e *Enclave) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := w.Judge.Now()
	switch {
	case !e.betrayed.IsZero():
		return false
	case !w.Enforce:
		return true
	}
	return e.now.holds(now, w.Every)
}

// Verified says whether an enclave is verified now, for any policy.
func (w *Watch) Verified(e *Enclave) bool {
	return e.Standing().holds(w.Judge.Now(), w.Every)
}

func (s EnclaveStatus) holds(now time.Time, every time.Duration) bool {
	return s.Verified && now.Before(s.Until) && now.Sub(s.At) < stale*every
}

// Has says whether an enclave has proven a key.
func (w *Watch) Has(e *Enclave, key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.keys[key]
	return ok && w.Judge.Now().Sub(at) < keyLife
}

// Signs says whether an address is that of a key that an enclave has proven.
func (w *Watch) Signs(e *Enclave, address [20]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.address == address && address != [20]byte{} {
		return true
	}
	for key := range e.keys {
		if k, err := seal.ParseKey(key); err == nil {
			if sum := wallet.Keccak(k.Bytes()[1:]); [20]byte(sum[12:]) == address {
				return true
			}
		}
	}
	return false
}

// Learn asks an enclave for its current key, because a client names one that is not known.
// It is rarely asked for that; a request that is under way is waited for.
func (w *Watch) Learn(e *Enclave) {
	e.mu.Lock()
	now := w.Judge.Now()
	if e.under == nil && !e.asked.IsZero() && now.Sub(e.asked) < learnApart {
		e.mu.Unlock()
		return
	}
	e.asked = now
	e.mu.Unlock()
	w.Look(e)
}

// Betrayed notes an enclave that answered a sealed chat in the clear.
func (w *Watch) Betrayed(e *Enclave) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.betrayed = w.Judge.Now()
	e.plain++
	select {
	case e.wake <- struct{}{}:
	default:
	}
	w.Log.Error().Str("model", e.Model).Str("upstream", e.Name).
		Msg("tee: an enclave answered a sealed chat in the clear; it is asked for nothing until it is verified again")
}
