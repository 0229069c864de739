package chat

import (
	"math"
	"sync/atomic"
	"time"

	"farebox/billing/journal"
	"farebox/providers/chat/dialect"
)

// usageWait is how long an answer whose model has finished is read on after its client left: only
// the usage is missing.
const usageWait = time.Second

// carryOn lets the answer be read to its end when the client leaves, since only the end has its
// usage: always for whole answers and models that may think unseen, else where the operator wants
// that (billing.on_client_gone).
func (c *inference) carryOn() {
	b := &c.call.Config().Billing
	c.carries = c.full || b.OnClientGone == "drain"
	most := int64(b.Drain.Bytes)
	if c.toEnd = c.call.Keeps() && !c.chat.Verbatim; c.toEnd {
		most = 0
	}
	c.x.DrainOnGone(most, c.onGone)
}

// mayDrain takes one of the slots for answers that are read on, which customers share. The watcher
// asks it, from its own goroutine.
func (c *inference) mayDrain() (time.Duration, bool) {
	if c.toEnd && c.call.MayFinish() {
		return 0, true
	}
	if c.finishing.Load() {
		return usageWait, true
	}
	if !c.carries {
		return 0, false
	}
	drain := &c.owner.gateway.Config().Billing.Drain
	c.owner.drains.Resize(int64(drain.Streams))
	if !c.owner.drains.Take(c.call.Owner(), 1) {
		return 0, false
	}
	c.drains.Store(true)
	return drain.Time, true
}

// completeUsage completes the usage of a request whose client left before its answer was whole:
// the prompt, since it went upstream, the produced tokens, and, where the model may have produced
// more than was seen, as many as it usually does in the time that it had, within its cap. This is
// the one place that decides the charge after a disconnect.
func (c *inference) completeUsage(u dialect.Usage) dialect.Usage {
	if u.Prompt == 0 {
		u.Prompt = dialect.CountPrompt(&c.chat)
	}
	u.Estimated = true
	if c.full && !c.chat.Embedding {
		took := time.Duration(time.Now().UnixNano()-c.call.StartNs) - c.lookup.lasted()
		hidden := int64(math.Ceil(took.Seconds() * c.view.meters[c.call.Model.Index].pace.tokensPerSecond()))
		u.Completion = max(u.Completion, min(hidden, c.chat.Cap))
	}
	return u
}

// settleDisconnect settles a request whose client left before there was an answer to give.
func (c *inference) settleDisconnect() {
	if !c.res.Sent && !c.lookup.bought() || !c.call.Hold().Open() {
		return
	}
	used := dialect.Usage{}
	if c.res.Sent {
		used = c.completeUsage(used)
	}
	c.call.Status = 499
	c.call.CutKept()
	c.bill(used, journal.FlagAborted)
	c.call.Settle()
}

// tokenizing is how many tokens a model makes of a prompt that we count as
// 1,000, as observed where prompts were counted; 0: not observed.
type tokenizing struct{ observed atomic.Int64 }

// otherFamily is the usual count of an upstream of another family for 1,000 of ours.
const otherFamily = 1250

func (z *tokenizing) permille(m *dialect.Model) int64 {
	if n := z.observed.Load(); n != 0 {
		return n
	}
	for _, t := range m.Targets {
		if t.Upstream.Dialect.Translates() {
			return otherFamily
		}
	}
	return 1000
}

// note takes a prompt into account. More tokens count at once, fewer slowly.
// Short prompts say more about templates.
func (z *tokenizing) note(reported, counted int64) {
	if counted < 256 {
		return
	}
	old, now := z.observed.Load(), min(max(1000, reported*1000/counted), 2000)
	if old > now {
		now = old - (old-now+15)/16
	}
	z.observed.CompareAndSwap(old, now)
}

// pace is how fast a model produces, as observed.
type pace struct{ bits atomic.Uint64 } // of a float64, tokens a second; 0: not observed

// usualPace stands for a model that has not been observed yet.
const usualPace = 60

func (p *pace) tokensPerSecond() float64 {
	if bits := p.bits.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return usualPace
}

// note takes an answer into the mean. Short ones say more about the network.
func (p *pace) note(tokens int64, took time.Duration) {
	if tokens < 16 || took <= 0 {
		return
	}
	now, old := float64(tokens)/took.Seconds(), p.bits.Load()
	if old != 0 {
		was := math.Float64frombits(old)
		now = was + (now-was)/8
	}
	p.bits.CompareAndSwap(old, math.Float64bits(now)) // one that is lost is no loss
}

// sources is the observed number of results of an upstream's own search of X: a client that
// leaves before they are sent pays for the average.
type sources struct{ observed atomic.Int64 } // thousandths of the mean, and 1; 0: not observed

// usual is the observed number, at most most; before observations it is most.
func (s *sources) usual(most int64) int64 {
	if n := s.observed.Load(); n != 0 {
		return min(most, (n-1+999)/1000)
	}
	return most
}

func (s *sources) note(found int64) {
	old, now := s.observed.Load(), 1000*min(found, 1000)+1
	if old != 0 {
		now = old + (now-old)/8
	}
	s.observed.CompareAndSwap(old, now)
}
