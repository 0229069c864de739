package servers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a small file system of its own that a test can fill.
type Disk struct {
	Dir     string
	ballast string
}

// StartDisk mounts a file system of a size such as "4m" until the test ends. Not every
// container may mount: nil.
func StartDisk(tb testing.TB, size string) *Disk {
	tb.Helper()
	// Not in tb.TempDir, which removes its files before it is unmounted.
	dir, err := os.MkdirTemp("", "farebox-disk-")
	if err != nil {
		tb.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		tb.Logf("cannot mount a file system: %v", err)
		_ = os.Remove(dir)
		return nil
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			tb.Errorf("cannot unmount %s: %v", dir, err)
		}
		_ = os.Remove(dir)
	})
	return &Disk{Dir: dir, ballast: filepath.Join(dir, "ballast")}
}

// Fill leaves nothing free but so many bytes.
func (d *Disk) Fill(tb testing.TB, but int64) {
	tb.Helper()
	f, err := os.OpenFile(d.ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		tb.Fatalf("cannot fill the disk: %v", err)
	}
	size, err := f.Seek(0, 2)
	if err == nil {
		err = f.Truncate(max(0, size-but))
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Free makes room again.
func (d *Disk) Free(tb testing.TB) {
	tb.Helper()
	if err := os.Remove(d.ballast); err != nil {
		tb.Fatal(err)
	}
}
