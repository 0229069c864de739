//go:build !unix

package config

import (
	"os"
	"testing"
)

// pipe makes a directory, which is not a regular file either, where there are no named
// pipes.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}
