package rpc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"farebox/config"
	"farebox/config/fair"
)

// room bounds the memory and the disk of all spools together, so that many large batches at
// once fill neither the memory nor the disk. Customers share it.
type room struct {
	memory, disk *fair.Space

	dir      string      // folder of answers on disk
	tell     func(error) // called with the error when an answer cannot be held; may be nil
	toldNs   atomic.Int64
	failures *atomic.Int64
}

// roomFor is the limit of all batches, in limits of one batch. One customer gets seven
// eighths at most, so that the largest answer of another one fits.
const roomFor = 8

func newRoom(memory, disk int64, dir string) *room {
	return &room{memory: fair.NewRoom(roomFor * memory), disk: fair.NewRoom(roomFor * disk), dir: dir,
		failures: new(atomic.Int64)}
}

var errNoRoom = errors.New(
	"large answers to batches that are on their way take more than they may together; raise rpc.batch_answer, or " +
		"lower what clients may ask at once")

// tellEvery keeps clients from filling the log with errors of the disk.
const tellEvery = 10 * time.Second

// failed counts an answer that could not be held, and reports the error now and then.
func (r *room) failed(err error) {
	r.failures.Add(1)
	now := time.Now().UnixNano()
	if last := r.toldNs.Load(); r.tell != nil && now-last >= int64(tellEvery) && r.toldNs.CompareAndSwap(last, now) {
		r.tell(err)
	}
}

// spoolDir is the folder for large answers of batches: in the directory of the
// store, which this process is known to be able to write to. The system's
// directory for temporary files need not exist.
func spoolDir(cfg *config.Config) string { return filepath.Join(cfg.LedgerDir(), "rpc-answers") }

// EmptySpool makes the folder for large answers of batches, and removes files that a killed
// process left in it. It is for the start, before any request.
func EmptySpool(cfg *config.Config) error {
	dir := spoolDir(cfg)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot empty the folder for large answers: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder for large answers: %w", err)
	}
	return nil
}

// newFile is a new file in the folder, already unlinked. A folder that
// was removed meanwhile is made again.
func (r *room) newFile() (*os.File, error) {
	f, err := os.CreateTemp(r.dir, "answer-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(r.dir, 0o700); err == nil {
			f, err = os.CreateTemp(r.dir, "answer-*")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a file for a large answer: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot unlink the file of a large answer: %w", err)
	}
	return f, nil
}

// spool holds an answer that must be complete before any of it is sent: its
// beginning in memory, the rest in an unlinked file.
type spool struct {
	mem   []byte
	most  int   // of mem
	room  *room // nil: it stays in memory
	owner fair.Owner
	taken int // of its memory
	file  *os.File
	size  int64
}

// write appends p. Errors are also reported to the operator.
func (s *spool) write(p []byte) error {
	err := s.append(p)
	if err != nil && s.room != nil {
		s.room.failed(err)
	}
	return err
}

func (s *spool) append(p []byte) error {
	if s.file == nil && len(s.mem)+len(p) <= s.most && (s.room == nil ||
		s.room.memory.Grow(s.owner, int64(s.taken), int64(len(p)))) {
		s.mem, s.taken = append(s.mem, p...), s.taken+len(p)
		s.size += int64(len(p))
		return nil
	}
	if s.room != nil && !s.room.disk.Grow(s.owner, s.size-int64(s.taken), int64(len(p))) {
		return errNoRoom
	}
	s.size += int64(len(p))
	if s.file == nil {
		f, err := s.room.newFile()
		if err != nil {
			return err
		}
		s.file = f
	}
	if _, err := s.file.Write(p); err != nil {
		return fmt.Errorf("cannot write a large answer to its file: %w", err)
	}
	return nil
}

// inMemory says that all of it is in mem.
func (s *spool) inMemory() bool { return s.file == nil }

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
	if s.room != nil {
		s.room.memory.Give(s.owner, int64(s.taken))
		s.room.disk.Give(s.owner, s.size-int64(s.taken))
		s.room, s.taken = nil, 0
	}
}

// readAt reads from an offset on, at least a byte.
func (s *spool) readAt(p []byte, at int64) (int, error) {
	if at < int64(len(s.mem)) {
		return copy(p, s.mem[at:]), nil
	}
	n, err := s.file.ReadAt(p, at-int64(len(s.mem)))
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// piece is a part of an answer that is put together: text of ours, or a range of a node's
// answer.
type piece struct {
	text     []byte
	spool    *spool
	from, to int64
}

func (p *piece) size() int64 {
	if p.spool == nil {
		return int64(len(p.text))
	}
	return p.to - p.from
}

// pieces are an answer made of parts of several spools.
type pieces []piece

func (pi pieces) size() (n int64) {
	for i := range pi {
		n += pi[i].size()
	}
	return n
}

func (pi pieces) inMemory() bool {
	for i := range pi {
		if s := pi[i].spool; s != nil && !s.inMemory() {
			return false
		}
	}
	return true
}

// appendTo appends all of it, which is in memory.
func (pi pieces) appendTo(b []byte) []byte {
	for i := range pi {
		if p := &pi[i]; p.spool == nil {
			b = append(b, p.text...)
		} else {
			b = append(b, p.spool.mem[p.from:p.to]...)
		}
	}
	return b
}

// answer adds one answer of a spool under the client's id.
func (pi pieces) answer(s *spool, a *Answer, id []byte) pieces {
	if a.IDTo == 0 {
		text := append(append([]byte(`{"id":`), id...), ',')
		return append(pi, piece{text: text}, piece{spool: s, from: a.From + 1, to: a.To})
	}
	return append(pi, piece{spool: s, from: a.From, to: a.IDFrom}, piece{text: id},
		piece{spool: s, from: a.IDTo, to: a.To})
}

// Stream is a large answer that was put together, as a response body. It owns
// its files until Close.
type Stream struct {
	// Size of all of it.
	Size int64

	list   pieces
	spools []*spool
	client net.Conn
	due    time.Time // the client's deadline for the bytes read so far
}

// A client that reads nothing of a Stream for streamPause, or less than minStreamRate bytes
// a second on average, is cut: it holds space that others need.
const (
	streamPause   = 10 * time.Second
	minStreamRate = 32 << 10
)

// Read is io.Reader. Each read gives the client time to take its bytes.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.next(p)
	if s.client == nil || n == 0 {
		return n, err
	}
	now := time.Now()
	if s.due.IsZero() {
		s.due = now.Add(streamPause / 2)
	}
	s.due = s.due.Add(time.Duration(n) * time.Second / minStreamRate)
	if latest := now.Add(streamPause); s.due.After(latest) {
		s.due = latest
	}
	if err := s.client.SetWriteDeadline(s.due); err != nil {
		return 0, err
	}
	return n, err
}

func (s *Stream) next(p []byte) (int, error) {
	for len(s.list) > 0 && s.list[0].size() == 0 {
		s.list = s.list[1:]
	}
	if len(s.list) == 0 {
		return 0, io.EOF
	}
	first := &s.list[0]
	if first.spool == nil {
		n := copy(p, first.text)
		first.text = first.text[n:]
		return n, nil
	}
	if left := first.to - first.from; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := first.spool.readAt(p, first.from)
	first.from += int64(n)
	if n == 0 && err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close is io.Closer.
func (s *Stream) Close() error {
	for _, sp := range s.spools {
		sp.close()
	}
	s.list, s.spools = nil, nil
	return nil
}
