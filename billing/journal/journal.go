package journal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/disk"
	"farebox/billing/money"
	"farebox/config/background"
)

// Journal is the book of original entry: every hold and every charge, in the
// order in which they happened. An append is a copy into a shared mapping,
// about 0.1 µs, and survives kill -9 without a system call; a syncer puts it
// on disk a few milliseconds later. Only synced records reach the store: a
// record that a power cut takes back must not have been applied, or its
// sequence number would come again (notes: 2.6).
type Journal struct {
	dir   string
	size  int  // of a segment
	Power bool // settlements wait for the disk
	log   zerolog.Logger

	prepare func(dir string, size int) (*segment, error) // makes the next segment
	rename  func(from, to string) error

	mu       sync.Mutex
	seg      *segment   // nil before the first record
	next     *segment   // prepared, without a place yet
	retired  []*segment // full, not yet synced for the last time
	refs     []Ref
	seq      uint64 // of the last record
	dirty    bool   // the syncer has been woken
	closed   bool
	reserved int // bytes that open holds will still need to be resolved
	open     int
	held     money.Nano
	failed   error // why there is no next segment
	unnamed  error // why seg has no name

	synced atomic.Uint64
	syncMu sync.Mutex
	syncOK sync.Cond // synced moved; settlements wait here with durability power
	wake   chan struct{}
	need   chan struct{}
	work   background.Work
}

const (
	// DefaultSize keeps the mapping's part of resident memory small; at
	// 10,000 requests a second a segment lasts about 7 s.
	DefaultSize = 16 << 20
	// A record is put on disk syncSoon after it was written, but syncs are
	// syncApart from each other: together they bound the loss in a power cut
	// (design.md, promise P2). A sync takes 100 to 150 µs of CPU here, so that
	// one every 2 ms would cost a twentieth of a core, or 1.4 µs a request at
	// 40,000 requests a second; every 10 ms it is 0.3 µs.
	syncSoon  = 2 * time.Millisecond
	syncApart = 10 * time.Millisecond
	// Spares are kept for reuse instead of being removed.
	Spares = 2
	// prepareAgain is how long a failed preparation waits for disk space.
	prepareAgain = time.Second
)

// errFull says that the journal cannot promise room for one more hold.
var errFull = errors.New("the journal cannot grow")

// New continues after sequence last in dir; refs are the segments that
// are still there.
func New(dir string, size int, power bool, last uint64, refs []Ref, log zerolog.Logger) *Journal {
	j := &Journal{
		dir: dir, size: size, Power: power, log: log, prepare: createSegment, rename: os.Rename, seq: last, refs: refs,
		wake: make(chan struct{}, 1), need: make(chan struct{}, 1),
	}
	j.syncOK.L = &j.syncMu
	j.synced.Store(last)
	return j
}

// Start begins to sync, and to prepare segments, in the background.
func (j *Journal) Start() {
	j.work.Go(j.syncer)
	j.work.Go(j.preparer)
}

// Append gives r the next sequence number and writes it. heldBy is how much
// more is held after it. A hold is refused with errFull unless there is room
// to resolve it, and all open ones, too; settlements and voids always fit.
func (j *Journal) Append(r *Record, heldBy money.Nano) error {
	j.mu.Lock()
	if err := j.room(r.Kind); err != nil {
		j.mu.Unlock()
		return err
	}
	j.seq++
	r.Seq = j.seq
	switch r.Kind {
	case Hold:
		r.Hold = r.Seq
		j.open++
		j.reserved += MaxRecord
	case Settle, Void:
		j.open--
		j.reserved -= MaxRecord
	}
	j.held += heldBy
	s := j.seg
	n := r.Put(s.mem.bytes()[s.off:])
	err := s.mem.wrote(s.off, n)
	s.off += n
	wake := !j.dirty
	j.dirty = true
	j.mu.Unlock()
	if wake {
		j.wake <- struct{}{}
	}
	if err != nil {
		// A charge that cannot be written must not be served.
		panic(fmt.Sprintf("cannot write the journal: %v", err))
	}
	return nil
}

// Unhold corrects the sum of the held money when a hold loses part of it.
func (j *Journal) Unhold(n money.Nano) {
	j.mu.Lock()
	j.held -= n
	j.mu.Unlock()
}

// room makes sure that a record fits, in a new segment if need be.
func (j *Journal) room(kind uint8) error {
	if err := j.space(kind); err != nil {
		return err
	}
	if j.seg != nil && j.seg.off+MaxRecord <= j.size {
		return nil
	}
	err := j.rotate()
	if err == nil && j.unnamed != nil && kind != Settle && kind != Void {
		return errFull
	}
	return err
}

// space makes sure that there is room for a record, and for the later records of open holds.
func (j *Journal) space(kind uint8) error {
	if j.closed {
		return errFull
	}
	if kind == Settle || kind == Void {
		return nil
	}
	if j.unnamed != nil && j.name() != nil {
		return errFull
	}
	need := j.reserved + MaxRecord
	if kind == Hold {
		need += MaxRecord
	}
	if j.free() < need && j.failed == nil {
		j.prepareNow()
	}
	if j.free() < need {
		return errFull
	}
	return nil
}

// free is how many bytes of records certainly fit. The end of a segment is
// counted as lost, since records do not cross it.
func (j *Journal) free() (n int) {
	if j.seg != nil {
		n = max(0, j.size-j.seg.off-MaxRecord)
	}
	if j.next != nil {
		n += j.size - segmentHead - MaxRecord
	}
	return n
}

// rotate continues in the next segment. Where that cannot be given its name, a record that
// was promised room goes in all the same: readers know the segment that follows
// the last one by its head. Nothing new is admitted until it has its name.
func (j *Journal) rotate() error {
	if j.next == nil {
		j.prepareNow()
	}
	if j.next == nil && j.failed != nil {
		return fmt.Errorf("%w: %w", errFull, j.failed) // it names the folder and the bytes
	}
	if j.next == nil || j.unnamed != nil && j.name() != nil {
		return errFull
	}
	s := j.next
	if err := s.begin(j.seq + 1); err != nil {
		j.log.Error().Err(err).Msg("cannot begin a journal segment")
		return errFull
	}
	if j.seg == nil {
		// No segment leads readers to the first one.
		path := Path(j.dir, s.first)
		if err := j.rename(s.path, path); err != nil {
			j.log.Error().Err(err).Msg("cannot begin the journal")
			return errFull
		}
		s.path, s.named = path, true
	} else {
		j.retired = append(j.retired, j.seg)
	}
	j.seg, j.next = s, nil
	j.refs = append(j.refs, Ref{s.first, s.path})
	if !s.named {
		_ = j.name() // kept in unnamed, and tried again
	}
	select {
	case j.need <- struct{}{}:
	default:
	}
	return nil
}

// name gives the segment that is written to its name, and notes in unnamed why
// that failed.
func (j *Journal) name() error {
	s := j.seg
	path := Path(j.dir, s.first)
	if err := j.rename(s.path, path); err != nil {
		if j.unnamed == nil {
			j.log.Error().Err(err).Msg(
				"the journal cannot be written; admitted requests are recorded, and new paid requests are refused " +
					"until its directory is writable")
		}
		j.unnamed = err
		return err
	}
	if j.unnamed != nil {
		j.log.Info().Msg("the journal can be written again")
	}
	s.path, s.named, j.unnamed = path, true, nil
	j.refs[len(j.refs)-1].Path = path
	return nil
}

// prepareNow is for the case that the preparer was too slow.
func (j *Journal) prepareNow() {
	if j.next != nil {
		return
	}
	j.next, j.failed = j.prepare(j.dir, j.size)
}

// preparer keeps one segment ready, so that no request waits for the disk.
func (j *Journal) preparer() {
	for {
		select {
		case <-j.work.Closing():
			return
		case <-j.need:
		}
		for !j.prepareNext() {
			if !j.work.Sleep(prepareAgain) {
				return
			}
		}
	}
}

// prepareNext works outside the lock; only the preparer and, rarely, an append
// that found nothing prepared make segments.
func (j *Journal) prepareNext() bool {
	j.mu.Lock()
	if j.unnamed != nil && !j.closed && j.name() != nil {
		j.mu.Unlock()
		return false
	}
	have, prepare := j.next != nil || j.closed, j.prepare
	j.mu.Unlock()
	if have {
		return true
	}
	s, err := prepare(j.dir, j.size)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if j.failed == nil {
			j.log.Error().Err(err).Msg("the journal cannot grow; new paid requests are refused once it is full")
		}
		j.failed = err
		return false
	}
	j.failed = nil
	if j.next != nil || j.closed {
		_ = s.closeFile()
		_ = os.Remove(s.path)
		return true
	}
	j.next = s
	return true
}

// Ready prepares the first segment ahead of the first request.
func (j *Journal) Ready() {
	select {
	case j.need <- struct{}{}:
	default:
	}
}

// Takes says why a hold would be refused; nil while there is room for one.
func (j *Journal) Takes() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.space(Hold); err != nil {
		return errors.Join(err, j.failed, j.unnamed)
	}
	return nil
}

// Healthy says why there is no segment to write to, or soon will be none.
func (j *Journal) Healthy() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil && j.seg == nil && !j.closed {
		j.prepareNow() // as the first append would: until then it is not known whether there is room
	}
	return errors.Join(j.failed, j.unnamed)
}

// Figures are how many holds are open, the sum they hold, and the last record.
func (j *Journal) Figures() (open int, held money.Nano, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open, j.held, j.seq
}

// Adopt counts holds that an earlier process left open: they can be resolved.
func (j *Journal) Adopt(holds int) {
	j.mu.Lock()
	j.open += holds
	j.reserved += holds * MaxRecord
	j.mu.Unlock()
}

// Release lets go of the segments whose records are all at or below seq. A few
// are kept for reuse, the rest removed.
func (j *Journal) Release(seq uint64) {
	j.mu.Lock()
	var done []Ref
	for len(j.refs) > 1 && j.refs[1].First <= seq+1 {
		if len(j.refs) == 2 && j.unnamed != nil {
			break // the last with a name leads readers to the one without
		}
		done = append(done, j.refs[0])
		j.refs = j.refs[1:]
	}
	j.mu.Unlock()
	for _, ref := range done {
		if err := j.recycle(ref); err != nil {
			j.log.Warn().Err(err).Msg("cannot remove an applied journal segment")
		}
	}
}

// recycle keeps an applied segment for reuse, or removes it.
func (j *Journal) recycle(ref Ref) error {
	spares, err := disk.List(j.dir, spareSuffix)
	if err != nil {
		return err
	}
	info, err := os.Stat(ref.Path)
	if err != nil {
		return err
	}
	if info.Size() == int64(j.size) && len(spares) < Spares {
		return os.Rename(ref.Path, ref.Path+spareSuffix)
	}
	return os.Remove(ref.Path)
}

// Seal lets no further record in: once the store has caught up with the
// journal, it has every record.
func (j *Journal) Seal() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
}

// Close syncs and lets go of the files. applied says that the store has every
// record; then nothing needs to stay.
func (j *Journal) Close(applied bool) error {
	j.Seal()
	j.Halt()
	j.sync()
	var err error
	if j.next != nil {
		err = errors.Join(err, j.next.closeFile(), os.Rename(j.next.path, j.next.path+spareSuffix))
	}
	if j.seg != nil {
		err = errors.Join(err, j.seg.closeFile())
	}
	if applied {
		for _, ref := range j.refs {
			err = errors.Join(err, os.Remove(ref.Path))
		}
	}
	return errors.Join(err, disk.Sync(j.dir))
}
