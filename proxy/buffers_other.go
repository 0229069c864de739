//go:build !linux

package proxy

import "time"

// boundBuffers is for Linux; elsewhere the watcher and the deadlines of writes
// end clients that do not read.
func boundBuffers(int, int, time.Duration) {}
