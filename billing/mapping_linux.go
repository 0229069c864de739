package billing

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a file as shared memory: what is stored there is in the page
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

// wrote is told of every change; a shared mapping needs nothing more.
func (m *mapping) wrote(int, int) error { return nil }

func (m *mapping) sync() error {
	for {
		if err := unix.Fdatasync(m.fd); err != unix.EINTR {
			return err
		}
	}
}

func (m *mapping) close() error { return unix.Munmap(m.mem) }
