//go:build race

package jail

import "os"

// ownCommand starts a child: this very binary, or the one that FAREBOX_JAIL names, which
// must know the same jobs. Under the race detector a child takes half a minute to begin,
// longer than callers wait for it, and its jobs run in one goroutine. Binaries without the
// detector ignore the variable.
func ownCommand() []string {
	if path := os.Getenv("FAREBOX_JAIL"); path != "" {
		return []string{path, Word}
	}
	return []string{ownPath(), Word}
}
