package audio

import (
	"time"

	"farebox/billing/store"
	"farebox/providers"
	"farebox/providers/audio"
)

const (
	// sweepEvery is how often voices are looked for whose time is over, and sweepMost how
	// many are deleted at a time.
	sweepEvery = time.Minute
	sweepMost  = 100
	// sweepGrace is how long an upstream may fail to delete a voice before it is left there.
	sweepGrace = 7 * 24 * time.Hour
)

// sweep deletes voices whose time is over, at their upstreams and here, for as long as
// the process lives.
func (of *Capability) sweep() {
	for range time.Tick(sweepEvery) {
		of.sweepOnce(time.Now())
	}
}

func (of *Capability) sweepOnce(now time.Time) {
	defer func() {
		if v := recover(); v != nil {
			of.gateway.NotePanic("the sweep of voices", v)
		}
	}()
	voices := of.gateway.Voices()
	expired, err := voices.ExpiredVoices(now.UnixMicro(), sweepMost)
	if err != nil {
		return // the store is away: they are found next time
	}
	for _, row := range expired {
		t := of.targetOf(row)
		gone := t == nil || audio.Forget(of.gateway.Proxy(), t, row.Voice)
		if late := now.Sub(time.UnixMicro(row.ExpiresUs)) > sweepGrace; !gone && !late {
			continue
		}
		if t == nil || !gone {
			of.gateway.Logger().Warn().Str("upstream", row.Upstream).Str("voice", row.Voice).
				Msg("an expired voice could not be deleted at its upstream; delete it there")
		}
		if _, err := voices.DeleteVoice(row.ID); err != nil {
			return
		}
	}
}

// targetOf is where a voice is; nil: the upstream is not configured any more.
func (of *Capability) targetOf(row *store.VoiceRow) *audio.Target {
	catalog, _ := of.catalog.Load().(*providers.Catalog)
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
