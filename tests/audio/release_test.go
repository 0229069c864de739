package audio

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "The song still waited in fal's queue when I let it go, and I paid all of it."
func TestASongThatOnlyWaitsIsFree(t *testing.T) {
	t.Parallel()
	s := &studio{sim: rig.StartUpstream(t, upstream.Options{}), media: filepath.Join(t.TempDir(), "media")}
	config := strings.NewReplacer("dialect: native", "dialect: fal", "{ upstream: queue }", "{ upstream: queue, model: sim/music }").
		Replace(musicConfig)
	s.Gateway = rig.StartGateway(t, fmt.Sprintf(config, strings.TrimSuffix(s.sim.URL, "/v1")+"/fal", "", s.media, "", ""))
	s.NewAccount("a", "1000")
	s.key, s.admin = s.Key("a"), s.Key("a", "--type", "ADMIN")
	for directive, price := range map[string]string{"polls=1000": "0", "job=late_cancel polls=1000": "0",
		"job=race polls=1000": "0.0115"} {
		s.costs(t, price, func() {
			id := s.queue(t, s.key, fmt.Sprintf(`{"model":"sound","prompt":"[[sim %s]] x","duration_seconds":5}`, directive))
			s.Must(200, "POST", "/audio/complete", s.key, fmt.Sprintf(`{"model":"sound","queue_id":%q}`, id), nil)
			rig.Await(t, "its upstream has stopped", func() bool {
				all := s.sim.Orders()
				return all[len(all)-1].Cancelled
			})
		})
	}
	s.CLI("verify")
}
