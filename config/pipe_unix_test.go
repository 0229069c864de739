//go:build unix

package config

import (
	"syscall"
	"testing"
)

// pipe makes a named pipe without a writer.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
