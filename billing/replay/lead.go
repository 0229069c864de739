package replay

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Lead is the right to carry a keyed request out, once Claim has written it down, and
// then the duty. It ends in exactly one Keep, Doubt or Forget; a second end changes nothing.
// One goroutine has it.
type Lead struct {
	keys    *Keys
	pending *record
	flight  *flight
	until   time.Time // when it waits for another node no longer
	durable bool
	account uint32
	body    []byte
	size    int64 // counted in Keys.recording
	over    bool  // the body cannot be kept
	claimed bool
	ended   bool
	kept    bool
}

func (k *Keys) newLead(id requestID, f *flight, c *Claim) *Lead {
	flags := byte(0)
	if c.Write {
		flags = flagWrites
	}
	return &Lead{keys: k, flight: f, account: c.Account, until: time.Now().Add(c.Wait), durable: c.Write, pending: &record{
		kind: kindPending, flags: flags, id: id, fingerprint: c.Fingerprint, owner: c.Owner, token: rand.Uint64(), node: k.node,
		boot: k.boot, patienceMs: uint32(min((c.Patience+patienceSlack)/time.Millisecond, 1<<31)),
	}}
}

// Claim writes an admitted request down, in one step. ErrLost says that another node was
// faster: the caller voids its hold, and Follow gives the answer. After any other error
// the lead has ended.
func (l *Lead) Claim() error {
	k := l.keys
	l.pending.atMs = k.now() / 1e6
	found, err := k.store.begin(l.pending, l.durable)
	switch {
	case errors.Is(err, errFull):
		k.stats.full.Add(1)
		l.abandon()
		return ErrFull
	case err != nil:
		l.abandon()
		return k.away(err)
	case found != nil:
		return ErrLost
	}
	l.claimed = true
	k.stats.led.Add(1)
	return nil
}

// Follow waits for the answer of the node that was faster, and ends the lead. ErrBusy
// says that this node has no answer in time, or that it failed.
func (l *Lead) Follow() (*Answer, error) {
	defer l.abandon()
	deadline := time.NewTimer(max(0, time.Until(l.until)))
	defer deadline.Stop()
	answer, err := l.find(deadline.C)
	if answer == nil && err == nil {
		l.keys.stats.busy.Add(1)
		err = ErrBusy
	}
	return answer, err
}

// find gives the answer of an earlier request with the key, and waits for one that
// another node carries out. Without answer and error nothing is in the way.
func (l *Lead) find(deadline <-chan time.Time) (*Answer, error) {
	k, pause := l.keys, pollEvery
	for {
		found, err := k.store.find(l.pending)
		switch {
		case err != nil:
			return nil, k.away(err)
		case found == nil:
			return nil, nil
		case found.fingerprint != l.pending.fingerprint:
			k.stats.reused.Add(1)
			return nil, ErrReused
		case found.kind == kindDone:
			a, err := found.answer(k.maxAnswer)
			if err == nil {
				k.stats.replayed.Add(1)
			}
			return a, err
		case found.orphan:
			return nil, ErrUnknown
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*pollEvery)
		case <-deadline:
			k.stats.busy.Add(1)
			return nil, ErrBusy
		}
	}
}

// away notes that the store does not answer.
func (k *Keys) away(err error) error {
	k.stats.away.Add(1)
	k.log.Warn().Err(err).Msg("a request with an idempotency key was refused: its key cannot be looked up or written down")
	return ErrAway
}

// abandon ends the lead without a write to the store. Requests that wait in this process go on.
func (l *Lead) abandon() {
	l.ended = true
	l.drop()
	l.keys.endFlight(l.pending.id, l.flight)
}

// RequestID is the id under which the request must be admitted.
func (l *Lead) RequestID() [16]byte { return l.pending.id }

// Record takes a piece of an answer's body that is sent as it arrives. Beyond
// the limit nothing is kept.
func (l *Lead) Record(piece []byte) {
	if l.over || len(l.body)+len(piece) > l.keys.maxAnswer || l.keys.recording.Load() > recordingMost {
		l.Cut()
		return
	}
	l.size += int64(len(piece))
	l.keys.recording.Add(int64(len(piece)))
	l.body = append(l.body, piece...)
}

// Cut says that the client did not take the answer to its end: the recorded part
// is not an answer that can be given again.
func (l *Lead) Cut() {
	l.drop()
	l.over = true
}

// Lost says that the answer is not one that can be given again.
func (l *Lead) Lost() bool { return l.over }

// drop gives back the memory of the recorded body.
func (l *Lead) drop() {
	l.keys.recording.Add(-l.size)
	l.body, l.size = nil, 0
}

// Kept says whether the request has ended with an answer that was kept.
func (l *Lead) Kept() bool { return l.kept }

// Ended says whether the request has ended, in one way or the other.
func (l *Lead) Ended() bool { return l.ended }

// Keep ends the request with its answer; without a Body the recorded one is the
// body. The answer decides whether the hold of that number is charged: it may be
// charged if this is true, and must not be otherwise, since the next try will be.
func (l *Lead) Keep(hold uint64, a *Answer) bool {
	if l.ended || !l.claimed {
		return false
	}
	err := l.keep(hold, a)
	if err != nil {
		l.keys.stats.free.Add(1)
		l.keys.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).
			Msg("the answer of a keyed request could not be kept; it is not charged")
	}
	return err == nil
}

// KeepCharged is Keep for a hold that is charged already, since something else has decided.
func (l *Lead) KeepCharged(hold uint64, a *Answer) {
	if l.ended || !l.claimed {
		return
	}
	if err := l.keep(hold, a); err != nil {
		l.keys.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).
			Msg("the answer of a keyed request that queued a job could not be kept; it is charged, and a repeat finds the job")
	}
}

func (l *Lead) keep(hold uint64, a *Answer) error {
	err := l.finish(l.done(hold, a))
	l.kept = err == nil
	return err
}

// Doubt ends a request that writes without an answer: it may have been carried out, and
// is not again. Its hold is the caller's to void.
func (l *Lead) Doubt() {
	if l.ended || !l.claimed {
		l.Forget()
		return
	}
	r := *l.pending
	r.kind, r.flags = kindDone, r.flags|flagUnknown
	if err := l.finish(&r); err != nil && !errors.Is(err, errTaken) && !errors.Is(err, errLater) {
		l.keys.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).
			Msg("the end of a keyed request could not be written down; its key is in use until it expires")
	}
}

// Forget ends the request as if it had not been: the next one with its key is
// carried out. Its hold is the caller's to void.
func (l *Lead) Forget() {
	if l.ended {
		return
	}
	if !l.claimed {
		l.abandon()
		return
	}
	if err := l.finish(nil); err != nil && !errors.Is(err, errTaken) && !errors.Is(err, errLater) {
		l.keys.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).
			Msg("a keyed request could not be taken back; its key is in use until it expires")
	}
}

func (l *Lead) finish(done *record) error {
	l.ended = true
	l.drop()
	leave := func() { l.keys.endFlight(l.pending.id, l.flight) }
	err := l.keys.store.finish(l.pending, done, leave)
	if !errors.Is(err, errLater) {
		leave()
	}
	return err
}

// done is the record that keeps an answer.
func (l *Lead) done(hold uint64, a *Answer) *record {
	r := *l.pending
	r.kind, r.token, r.boot = kindDone, hold, uint64(l.account)
	body := a.Body
	if body == nil {
		body = l.body
	}
	if l.over || len(body) > l.keys.maxAnswer {
		r.flags |= flagTooLarge
		return &r
	}
	r.keep(a, body)
	return &r
}
