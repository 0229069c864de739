package billing

import (
	"time"

	"farebox/config/background"
)

// keeper writes at its own pace the data that may wait and may be lost: when keys were last used, refusals by
// limits, and details of failed requests. It forgets keys that have expired, and refunds failed jobs.
type keeper struct {
	l       *Ledger
	work    background.Work
	failing bool
	owing   bool // refunds fail
	behind  behind
}

const (
	keepEvery = time.Second
	// touchEvery is how many rounds last uses wait: with 100,000 keys in use a
	// write of them all takes about half a second.
	touchEvery = 20
	// forgetEvery is how many rounds expired keys stay in memory at least.
	forgetEvery = 60
)

func startKeeper(l *Ledger) *keeper {
	k := &keeper{l: l}
	round := 0
	k.work.Every(keepEvery, func() { round++; k.keep(round) })
	return k
}

// keep is one round.
func (k *keeper) keep(round int) {
	k.note(k.l.violations.flush(k.l.store))
	k.note(k.l.keepRequests(round))
	k.note(k.l.characters.flush())
	k.l.characters.readNews()
	k.behind.advance(k.l)
	k.refund()
	if round%touchEvery == 0 {
		k.note(k.l.touched.flush(k.l.store))
	}
	if round%forgetEvery == 0 {
		k.l.forgetExpired()
	}
}

// refund refunds failed jobs.
func (k *keeper) refund() {
	if k.l.idle {
		return // the server does
	}
	n, err := k.l.Jobs().RefundAll()
	if err != nil && !k.owing {
		k.l.log.Warn().Err(err).Msg("failed jobs cannot be refunded now; farebox tries again")
	}
	if k.owing = err != nil; n > 0 {
		k.l.log.Info().Int("jobs", n).Msg("refunded failed jobs")
	}
}

// note logs the first of a row of failures.
func (k *keeper) note(err error) {
	if err != nil && !k.failing {
		k.l.log.Warn().Err(err).Msg(
			"cannot write the last use of keys and characters, refusals or details of requests; farebox tries again")
	}
	k.failing = err != nil
}

// close writes the rest.
func (k *keeper) close() {
	k.work.Close()
	k.note(k.l.violations.flush(k.l.store))
	k.note(k.l.requests.flush(k.l.store))
	k.note(k.l.characters.flush())
	k.note(k.l.touched.flush(k.l.store))
}
