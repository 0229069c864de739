//go:build linux || darwin

package disk

import "golang.org/x/sys/unix"

// Space is our free room on the disk of a folder, and its size, in bytes.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	size := int64(s.Bsize)
	return int64(min(s.Bavail, 1<<50)) * size, int64(min(s.Blocks, 1<<50)) * size, nil
}
