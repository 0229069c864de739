//go:build !linux

package journal

import "os"

// mapping is a file with its content in memory; every change is written through.
type mapping struct {
	mem  []byte
	file *os.File
}

// reserve gives the file its blocks.
func reserve(file *os.File, size int) error { return fill(file, size) }

func openMapping(file *os.File, size int) (mapping, error) {
	return mapping{make([]byte, size), file}, nil
}

func (m *mapping) bytes() []byte { return m.mem }

// wrote is notified of every change and writes it.
func (m *mapping) wrote(at, n int) error {
	_, err := m.file.WriteAt(m.mem[at:at+n], int64(at))
	return err
}

// Pages need no care here.
func (m *mapping) ahead(int, int)  {}
func (m *mapping) behind(int, int) {}

func (m *mapping) sync() error { return m.file.Sync() }

func (m *mapping) close() error { return nil }
