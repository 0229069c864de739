package servers

import (
	"runtime/debug"
	"testing"
)

// NoRace leaves a test out under the race detector, under which it takes ten times as long:
// one goroutine works in it at a time, or other tests take the same ways concurrently.
func NoRace(tb testing.TB) {
	tb.Helper()
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			tb.Skip("nothing works concurrently here, and the race detector is on")
		}
	}
}
