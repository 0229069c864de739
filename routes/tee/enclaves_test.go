package tee

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/providers/tee"
)

// An answer in the clear counts against its enclave under the current config, too: a
// stream can be older.
func TestABetrayalOutlivesItsConfig(t *testing.T) {
	t.Parallel()
	newView := func() *view {
		e := &tee.Enclave{Model: "e2ee-m", Name: "u", Policy: &tee.Policy{},
			Upstream: &tee.Upstream{At: "https://enclave.example/v1", Kind: tee.Dstack, Model: "m"}}
		v := &view{watch: &tee.Watch{Judge: &tee.Judge{Now: time.Now}, Log: zerolog.Nop()}, each: []*tee.Enclave{e}}
		v.watch.Over(v.each)
		return v
	}
	cp := New()
	before, now := newView(), newView()
	cp.live.Store(now)
	if !now.watch.Ready(now.each[0]) {
		t.Fatal("it is not ready to begin with")
	}
	cp.betrayed(before, before.each[0])
	if before.watch.Ready(before.each[0]) || now.watch.Ready(now.each[0]) {
		t.Error("it is asked again")
	}
	cp.betrayed(now, nil) // a target that is not an enclave
}
