package run

import (
	"runtime/debug"
	"time"
)

// CommitTime is the time of the commit that was built as YYYYMMDD.HHMMSS, in UTC; zeros without
// a repository (addendum 3.7).
func CommitTime() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return at.UTC().Format("20060102.150405")
			}
		}
	}
	return "00000000.000000"
}
