package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"farebox/billing/disk"
)

// Reader goes through the records of a journal in order, from a sequence on.
// It reads files, not mappings, so it needs nothing of the writer but the
// number up to which the journal is synced.
type Reader struct {
	dir  string
	seq  uint64 // of the last record that was read
	file *os.File
	from uint64 // sequence that file begins with
	off  int64  // in file, of buf[at:]
	buf  []byte
	at   int
	rec  Record

	before SoldBefore
}

// readChunk is how much is read at a time.
const readChunk = 256 << 10

// ErrDamaged is a journal that lost records which had been on disk.
var ErrDamaged = errors.New("the journal is damaged: records that were on disk cannot be read")

// NewReader starts behind sequence after. refs must contain the segment of the
// next record, if there is one.
func NewReader(dir string, refs []Ref, after uint64, before SoldBefore) (*Reader, error) {
	r := &Reader{dir: dir, seq: after, buf: make([]byte, 0, readChunk), before: before}
	start := -1
	for i, ref := range refs {
		if ref.First <= after+1 {
			start = i
		}
	}
	if start < 0 {
		return r, nil
	}
	first := refs[start].First
	r.seq = first - 1
	for r.seq < after {
		rec, err := r.Next(after)
		if err != nil {
			r.Close()
			return nil, err
		}
		if rec == nil {
			// The cursor is beyond the end; only a journal that lost its end
			// is like that, and recovery tells.
			r.Close()
			r.file, r.seq = nil, after
			return r, nil
		}
	}
	return r, nil
}

// Next gives the next record with a sequence up to limit; nil when there is
// none. The record is valid until the next call.
func (r *Reader) Next(limit uint64) (*Record, error) {
	for r.seq < limit {
		if r.file != nil {
			switch n, err := r.decode(); {
			case err != nil:
				return nil, err
			case n > 0:
				r.at += n
				r.seq++
				return &r.rec, nil
			}
		}
		ok, err := r.openSegment(r.seq + 1)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, nil
		}
	}
	return nil, nil
}

// decode reads the record at r.at; 0 when it is not the next one. The bytes in
// the buffer may be older than the record, so a miss counts only after a fresh
// read.
func (r *Reader) decode() (int, error) {
	n := r.rec.Get(r.buf[r.at:], r.seq+1, r.before)
	if n == 0 {
		if err := r.refill(); err != nil {
			return 0, err
		}
		n = r.rec.Get(r.buf[r.at:], r.seq+1, r.before)
	}
	return n, nil
}

// refill moves on in the file and reads the bytes written since.
func (r *Reader) refill() error {
	r.off += int64(r.at)
	r.at = 0
	n, err := r.file.ReadAt(r.buf[:readChunk], r.off)
	r.buf = r.buf[:n]
	if err != nil && err != io.EOF {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	return nil
}

// openSegment opens the segment that begins with sequence first; false when there is
// none, or when its first record is the one that could not be read.
func (r *Reader) openSegment(first uint64) (bool, error) {
	if r.file != nil && r.from == first {
		return false, nil
	}
	file, err := openSegment(r.dir, first)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the journal: %w", err)
	}
	r.Close()
	r.file, r.from, r.off, r.at, r.buf = file, first, 0, 0, r.buf[:0]
	if err := r.refill(); err != nil {
		return false, err
	}
	if _, ok := readHead(r.buf, first); !ok {
		r.Close()
		r.file = nil
		return false, nil
	}
	r.at = segmentHead
	return true, nil
}

// Close lets go of the file.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// Survey looks at the journal of a former process: the last good record, and
// how far the journal is known to have been on disk. A torn end is cut off, so
// that later bytes can never be taken for a continuation.
func Survey(dir string) (refs []Ref, last uint64, err error) {
	refs, err = Segments(dir)
	if err != nil {
		return nil, 0, err
	}
	if len(refs) == 0 {
		return nil, 0, removePrepared(dir)
	}
	watermark := uint64(0)
	for _, ref := range refs {
		mark, err := readMark(ref)
		if err != nil {
			return nil, 0, err
		}
		watermark = max(watermark, mark)
	}
	r, err := NewReader(dir, refs, refs[0].First-1, nil)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	for {
		rec, err := r.Next(math.MaxUint64)
		if err != nil {
			return nil, 0, err
		}
		if rec == nil {
			break
		}
	}
	last = r.seq
	if newest := refs[len(refs)-1].First; r.file != nil && r.from > newest {
		// The last segment could not be given its name while it was written.
		ref := Ref{r.from, Path(dir, r.from)}
		if err := os.Rename(r.file.Name(), ref.Path); err != nil {
			return nil, 0, err
		}
		mark, err := readMark(ref)
		if err != nil {
			return nil, 0, err
		}
		refs, watermark = append(refs, ref), max(watermark, mark)
	}
	if last < watermark {
		return nil, 0, fmt.Errorf("%w: good up to record %d of %d in %s; restore the directory from a backup",
			ErrDamaged, last, watermark, dir)
	}
	if refs, err = cutTail(refs, last, r); err != nil {
		return nil, 0, err
	}
	// The last writes of a killed process are in the page cache, not yet on disk; they must
	// be there before they are applied.
	for _, ref := range refs {
		if err := syncFile(ref.Path); err != nil {
			return nil, 0, err
		}
	}
	return refs, last, errors.Join(removePrepared(dir), disk.Sync(dir))
}

// readMark gives the watermark of a segment. A segment that a power cut kept
// from its first sync has no head; then it has no first record either, since
// both lie in one sector. A first record without a head is damage.
func readMark(ref Ref) (uint64, error) {
	f, err := os.Open(ref.Path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, segmentHead+MaxRecord)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	b = b[:n]
	mark, ok := readHead(b, ref.First)
	if first := (Record{}); !ok && n > segmentHead && first.Get(b[segmentHead:], ref.First, nil) > 0 {
		return 0, fmt.Errorf("%w: the head of %s is wrong; restore the directory from a backup", ErrDamaged, ref.Path)
	}
	return mark, nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// cutTail removes segments that hold nothing but the rest of unsynced pages
// after a power cut, and ends the last good one behind its last record.
func cutTail(refs []Ref, last uint64, r *Reader) ([]Ref, error) {
	for len(refs) > 0 && refs[len(refs)-1].First > last {
		if err := os.Remove(refs[len(refs)-1].Path); err != nil {
			return nil, err
		}
		refs = refs[:len(refs)-1]
	}
	if len(refs) == 0 || r.file == nil || r.from != refs[len(refs)-1].First {
		return refs, nil
	}
	return refs, os.Truncate(refs[len(refs)-1].Path, r.off+int64(r.at))
}
