package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a file as shared memory: a stored byte is in the page
// cache at once and survives the process.
type mapping struct {
	mem []byte
	fd  int
}

// reserve gives the file its blocks, so that no store to the mapping can meet
// a full disk. Filling it with zeros would make the syncs of its first use 1.3
// times cheaper but costs 2 to 40 ms of CPU itself; a segment that is used
// again has both.
func reserve(file *os.File, size int) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, int64(size))
	for err == unix.EINTR {
		err = unix.Fallocate(int(file.Fd()), 0, 0, int64(size))
	}
	if err == unix.EOPNOTSUPP {
		return fill(file, size)
	}
	return err
}

func openMapping(file *os.File, size int) (mapping, error) {
	fd := int(file.Fd())
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, err
	}
	// Request ids need not be in a core dump. An old kernel may not know this.
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)
	return mapping{mem, fd}, nil
}

func (m *mapping) bytes() []byte { return m.mem }

// wrote is notified of every change; a shared mapping needs nothing more.
func (m *mapping) wrote(int, int) error { return nil }

// ahead makes the pages of from to to ready to be written, so that no append
// waits for a page fault. It is only about speed: an old kernel may not know it.
func (m *mapping) ahead(from, to int) {
	from, to = from&^pageMask, min((to+pageMask)&^pageMask, len(m.mem))
	if from < to {
		_ = unix.Madvise(m.mem[from:to], unix.MADV_POPULATE_WRITE)
	}
}

// behind takes the pages out of the mapping that were written from from to to,
// but for the one that to is in. A sync that found them there would protect each
// for itself against further writing, and interrupt every core for it.
func (m *mapping) behind(from, to int) {
	from, to = max(from&^pageMask, pageMask+1), to&^pageMask
	if from < to {
		_ = unix.Madvise(m.mem[from:to], unix.MADV_DONTNEED)
	}
}

var pageMask = os.Getpagesize() - 1

func (m *mapping) sync() error {
	for {
		if err := unix.Fdatasync(m.fd); err != unix.EINTR {
			return err
		}
	}
}

func (m *mapping) close() error { return unix.Munmap(m.mem) }
