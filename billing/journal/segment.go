package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"farebox/billing/disk"
)

// A segment is one file of the journal: a head, then records with ascending
// sequence numbers. Its blocks are allocated before its first use, since a hole
// in a mapping that meets a full disk is a SIGBUS. A segment whose records are
// all applied is used again; the records left in it have lower sequence
// numbers and are recognised by them.
type segment struct {
	path string
	file *os.File
	mem  mapping
	off  int // where the next record goes

	first uint64 // sequence of its first record
	named bool   // readers find it by its name
	seen  string // the name that is on disk; the syncer's

	// Of the syncer, too: bytes written up to here are out of the mapping, and
	// up to there they can be written without a page fault.
	passed, ready int
}

// readyAtFirst is how many bytes of a new segment can be written without a page
// fault before the syncer has seen how many are needed.
const readyAtFirst = 128 << 10

// Head of a segment: magic, first sequence, crc of both; the watermark is
// in a cache line of its own and is not covered, since it changes all the time.
const (
	segmentHead   = 128
	segmentMagic  = 0x316a786f62657266 // "frebxj1" and a version
	headFirst     = 8
	headCRC       = 16
	headWatermark = 64
	Suffix        = ".seg"
	spareSuffix   = ".spare"
	nextSuffix    = ".next" // prepared
)

// createSegment makes a file of size bytes that will never be short of disk,
// from a spare one when there is one.
func createSegment(dir string, size int) (*segment, error) {
	path, fresh, err := sparePath(dir, size)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if fresh {
		err = reserve(file, size)
	}
	var mem mapping
	if err == nil {
		mem, err = openMapping(file, size)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("cannot prepare a journal segment of %d bytes in %s: %w", size, dir, err)
	}
	mem.ahead(0, readyAtFirst)
	return &segment{path: path, file: file, mem: mem, off: segmentHead, ready: readyAtFirst}, nil
}

// pass is called before a sync of the bytes written up to off. Page faults and
// the protection of written pages were a third of a request's cost in this
// room as long as they were the appends' own.
func (s *segment) pass(off int) (wrote int) {
	wrote = off - s.passed
	s.mem.behind(s.passed, off)
	s.passed = off
	return wrote
}

// prepareNext is called after the sync: the bytes until the next one are probably as
// many as before this one. A page that is made ready too early costs
// a write of zeros.
func (s *segment) prepareNext(wrote int) {
	if to := s.passed + wrote + wrote/4; to > s.ready {
		s.mem.ahead(max(s.ready, s.passed), to)
		s.ready = to
	}
}

// sparePath takes a used segment of the right size, or names a new one. Two
// callers never get the same file.
func sparePath(dir string, size int) (path string, fresh bool, err error) {
	next := filepath.Join(dir, fmt.Sprintf("%d-%d%s", os.Getpid(), prepared.Add(1), nextSuffix))
	spares, err := disk.List(dir, spareSuffix)
	if err != nil {
		return "", false, err
	}
	for _, p := range spares {
		if info, err := os.Stat(p); err != nil || info.Size() != int64(size) {
			_ = os.Remove(p)
			continue
		}
		if os.Rename(p, next) == nil {
			return next, false, nil
		}
	}
	return next, true, nil
}

// prepared numbers the files of this process.
var prepared atomic.Int64

// fill writes zeros, so that every block of the file is allocated and written.
func fill(file *os.File, size int) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	zeros := make([]byte, 256<<10)
	for at := 0; at < size; at += len(zeros) {
		if _, err := file.WriteAt(zeros[:min(len(zeros), size-at)], int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the prepared segment that of the records from first on. From here
// on its head says so, and soon its name (journal.name).
func (s *segment) begin(first uint64) error {
	le := binary.LittleEndian
	head := s.mem.bytes()[:segmentHead]
	clear(head)
	le.PutUint64(head, segmentMagic)
	le.PutUint64(head[headFirst:], first)
	le.PutUint32(head[headCRC:], crc32.Checksum(head[:headCRC], castagnoli))
	s.first = first
	return s.mem.wrote(0, segmentHead)
}

// mark notes up to which sequence the journal was on disk when it was synced.
// A damaged record below it is not a torn tail but a broken disk.
func (s *segment) mark(seq uint64) error {
	word := (*uint64)(unsafe.Pointer(&s.mem.bytes()[headWatermark]))
	atomic.StoreUint64(word, seq)
	return s.mem.wrote(headWatermark, 8)
}

func (s *segment) closeFile() error { return errors.Join(s.mem.close(), s.file.Close()) }

// Path is the segment in dir that begins with a sequence.
func Path(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, Suffix))
}

// Ref is a segment on disk.
type Ref struct {
	First uint64
	Path  string
}

// openSegment opens the segment that begins with a sequence, also one that has
// not got its name.
func openSegment(dir string, first uint64) (*os.File, error) {
	path := Path(dir, first)
	file, err := os.Open(path)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	list, err := disk.List(dir, nextSuffix)
	if err != nil {
		return nil, err
	}
	for _, next := range list {
		file, err := os.Open(next)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		head := make([]byte, segmentHead)
		if _, err := file.ReadAt(head, 0); err == nil {
			if _, ok := readHead(head, first); ok {
				return file, nil
			}
		}
		_ = file.Close()
	}
	return os.Open(path) // it may have got its name meanwhile
}

// removePrepared removes segments that were prepared but never begun.
func removePrepared(dir string) error {
	list, err := disk.List(dir, nextSuffix)
	for _, path := range list {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Segments finds the segments that have a name, in order.
func Segments(dir string) ([]Ref, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []Ref
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		name, ok := strings.CutSuffix(e.Name(), Suffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read the journal: %s is not a segment", path)
		}
		list = append(list, Ref{first, path})
	}
	slices.SortFunc(list, func(a, b Ref) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	return list, nil
}

// readHead checks the head of a segment and gives its watermark.
func readHead(head []byte, first uint64) (watermark uint64, ok bool) {
	le := binary.LittleEndian
	if len(head) < segmentHead || le.Uint64(head) != segmentMagic || le.Uint64(head[headFirst:]) != first ||
		le.Uint32(head[headCRC:]) != crc32.Checksum(head[:headCRC], castagnoli) {
		return 0, false
	}
	return le.Uint64(head[headWatermark:]), true
}
