//go:build !linux

package scrape

import "time"

var began = time.Now()

// cpuTime is the clock on the wall, where there is no better one.
func cpuTime() time.Duration { return time.Since(began) }
