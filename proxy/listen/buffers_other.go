//go:build !linux

package listen

import "time"

// BoundBuffers is for Linux; elsewhere the watcher and the deadlines of writes
// end clients that do not read.
func BoundBuffers(int, int, time.Duration) {}
