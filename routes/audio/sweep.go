package audio

import (
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/config/background"
	"farebox/providers"
	"farebox/providers/audio"
)

const (
	// sweepEvery is how often voices are looked for whose time is over, and sweepMost how
	// many are looked at each time.
	sweepEvery = time.Minute
	sweepMost  = 1000
	// sweepGrace is how long an upstream may fail to delete a voice before it is left there.
	sweepGrace = 7 * 24 * time.Hour
	// closeWait is how long Close waits for an upstream that is just being asked.
	closeWait = 5 * time.Second
)

// sweeper is the goroutine that deletes voices whose time is over.
type sweeper struct {
	begin sync.Once
	work  background.Work
}

// beginSweeps begins to sweep until Close.
func (c *Capability) beginSweeps() { c.sweeper.begin.Do(func() { c.sweeper.work.Go(c.sweep) }) }

// Close ends the sweeping, before the ledger is closed.
func (c *Capability) Close() {
	c.sweeper.begin.Do(func() {}) // nothing begins after this
	ended := make(chan struct{})
	go func() { c.sweeper.work.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeWait):
	}
}

// sweep deletes voices whose time is over, at their upstreams and here.
func (c *Capability) sweep() {
	for c.sweeper.work.Sleep(sweepEvery) {
		c.sweepOnce(time.Now())
	}
}

func (c *Capability) sweepOnce(now time.Time) {
	defer func() {
		if v := recover(); v != nil {
			c.gateway.NotePanic("the sweep of voices", v)
		}
	}()
	voices := c.gateway.Voices()
	expired, err := voices.ExpiredVoices(now.UnixMicro(), sweepMost)
	if err != nil {
		return // the store is away: they are found next time
	}
	away := map[string]bool{} // upstreams that do not delete: each is asked once, not for all its voices
	for _, row := range expired {
		if c.sweeper.work.Context().Err() != nil {
			return
		}
		t := c.targetOf(row)
		gone := t == nil || !away[row.Upstream] && audio.Forget(c.gateway.Proxy(), t, row.Voice)
		away[row.Upstream] = !gone
		if late := now.Sub(time.UnixMicro(row.ExpiresUs)) > sweepGrace; !gone && !late {
			continue
		}
		if t == nil || !gone {
			c.gateway.Logger().Warn().Str("upstream", row.Upstream).Str("voice", row.Voice).
				Msg("an expired voice could not be deleted at its upstream; delete it there")
		}
		if _, err := voices.DeleteVoice(row.ID); err != nil {
			return
		}
	}
}

// targetOf is where a voice is; nil: the upstream is not configured any more.
func (c *Capability) targetOf(row *store.VoiceRow) *audio.Target {
	catalog, _ := c.catalog.Load().(*providers.Catalog)
	if catalog == nil {
		return nil
	}
	for _, m := range catalog.Models() {
		if m.Config.Type != "tts" {
			continue
		}
		for _, t := range providers.SoundTargets(m, nil) {
			if t.Upstream == row.Upstream {
				return t
			}
		}
	}
	return nil
}
