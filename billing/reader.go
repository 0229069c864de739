package billing

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"farebox/billing/disk"
)

// reader goes through the records of a journal in order, from a sequence on.
// It reads files, not mappings, so it needs nothing of the writer but the
// number up to which the journal is synced.
type reader struct {
	dir  string
	seq  uint64 // of the last record that was read
	file *os.File
	from uint64 // sequence that file begins with
	off  int64  // in file, of buf[at:]
	buf  []byte
	at   int
	rec  record

	before soldBefore
}

// readChunk is how much is read at a time.
const readChunk = 256 << 10

// ErrDamaged is a journal that lost records which had been on disk.
var ErrDamaged = errors.New("the journal is damaged: records that were on disk cannot be read")

// newReader starts behind sequence after. refs must contain the segment of the
// next record, if there is one.
func newReader(dir string, refs []segmentRef, after uint64, before soldBefore) (*reader, error) {
	r := &reader{dir: dir, seq: after, buf: make([]byte, 0, readChunk), before: before}
	start := -1
	for i, ref := range refs {
		if ref.first <= after+1 {
			start = i
		}
	}
	if start < 0 {
		return r, nil
	}
	first := refs[start].first
	r.seq = first - 1
	for r.seq < after {
		rec, err := r.next(after)
		if err != nil {
			r.close()
			return nil, err
		}
		if rec == nil {
			// The cursor is beyond the end; only a journal that lost its end
			// is like that, and recovery tells.
			r.close()
			r.file, r.seq = nil, after
			return r, nil
		}
	}
	return r, nil
}

// next gives the next record with a sequence up to limit; nil when there is
// none. The record is valid until the next call.
func (r *reader) next(limit uint64) (*record, error) {
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
		ok, err := r.enter(r.seq + 1)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, nil
		}
	}
	return nil, nil
}

// decode reads the record at r.at; 0 when it is not the next one. What is in
// the buffer may be from before the record was written, so a miss counts only
// after a fresh read.
func (r *reader) decode() (int, error) {
	n := r.rec.get(r.buf[r.at:], r.seq+1, r.before)
	if n == 0 {
		if err := r.refill(); err != nil {
			return 0, err
		}
		n = r.rec.get(r.buf[r.at:], r.seq+1, r.before)
	}
	return n, nil
}

// refill moves on in the file and reads what has been written since.
func (r *reader) refill() error {
	r.off += int64(r.at)
	r.at = 0
	n, err := r.file.ReadAt(r.buf[:readChunk], r.off)
	r.buf = r.buf[:n]
	if err != nil && err != io.EOF {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	return nil
}

// enter opens the segment that begins with sequence first; false when there is
// none, or when its first record is what could not be read.
func (r *reader) enter(first uint64) (bool, error) {
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
	r.close()
	r.file, r.from, r.off, r.at, r.buf = file, first, 0, 0, r.buf[:0]
	if err := r.refill(); err != nil {
		return false, err
	}
	if _, ok := readHead(r.buf, first); !ok {
		r.close()
		r.file = nil
		return false, nil
	}
	r.at = segmentHead
	return true, nil
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// surveyJournal looks at what a former process left: the last good record, and
// how far the journal is known to have been on disk. A torn end is cut off, so
// that what follows it can never be taken for a continuation.
func surveyJournal(dir string) (refs []segmentRef, last uint64, err error) {
	refs, err = listSegments(dir)
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
	r, err := newReader(dir, refs, refs[0].first-1, nil)
	if err != nil {
		return nil, 0, err
	}
	defer r.close()
	for {
		rec, err := r.next(math.MaxUint64)
		if err != nil {
			return nil, 0, err
		}
		if rec == nil {
			break
		}
	}
	last = r.seq
	if newest := refs[len(refs)-1].first; r.file != nil && r.from > newest {
		// The last segment could not be given its name while it was written.
		ref := segmentRef{r.from, segmentPath(dir, r.from)}
		if err := os.Rename(r.file.Name(), ref.path); err != nil {
			return nil, 0, err
		}
		mark, err := readMark(ref)
		if err != nil {
			return nil, 0, err
		}
		refs, watermark = append(refs, ref), max(watermark, mark)
	}
	if last < watermark {
		return nil, 0, fmt.Errorf("%w: good up to record %d of %d in %s; restore the directory from a backup", ErrDamaged, last, watermark, dir)
	}
	if refs, err = cutTail(refs, last, r); err != nil {
		return nil, 0, err
	}
	// What a killed process left is in the page cache, not yet on disk; it must
	// be there before it is applied.
	for _, ref := range refs {
		if err := syncFile(ref.path); err != nil {
			return nil, 0, err
		}
	}
	return refs, last, errors.Join(removePrepared(dir), disk.Sync(dir))
}

// readMark gives the watermark of a segment. A segment that a power cut kept
// from its first sync has no head; then it has no first record either, since
// both lie in one sector. A first record without a head is damage.
func readMark(ref segmentRef) (uint64, error) {
	f, err := os.Open(ref.path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, segmentHead+sizeMost)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	b = b[:n]
	mark, ok := readHead(b, ref.first)
	if first := (record{}); !ok && n > segmentHead && first.get(b[segmentHead:], ref.first, nil) > 0 {
		return 0, fmt.Errorf("%w: the head of %s is wrong; restore the directory from a backup", ErrDamaged, ref.path)
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

// cutTail removes segments that hold nothing but what a power cut left of
// unsynced pages, and ends the last good one behind its last record.
func cutTail(refs []segmentRef, last uint64, r *reader) ([]segmentRef, error) {
	for len(refs) > 0 && refs[len(refs)-1].first > last {
		if err := os.Remove(refs[len(refs)-1].path); err != nil {
			return nil, err
		}
		refs = refs[:len(refs)-1]
	}
	if len(refs) == 0 || r.file == nil || r.from != refs[len(refs)-1].first {
		return refs, nil
	}
	return refs, os.Truncate(refs[len(refs)-1].path, r.off+int64(r.at))
}
