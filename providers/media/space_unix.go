//go:build linux || darwin

package media

import "golang.org/x/sys/unix"

// freeSpace is the free space on the disk of a folder.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(min(s.Bavail, 1<<50)) * int64(s.Bsize), nil
}
