package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"farebox/billing/disk"
	"farebox/billing/store"
)

// Condition is the state of a ledger's store and disks, for operators.
type Condition struct {
	Latency   time.Duration // of a read of the store
	Bytes     int64         // of the store
	StoreDisk *Disk         // of an embedded store
	Journal   *Disk         // nil: not known
	// Oldest is the least age of the oldest record that the store does not have yet.
	Oldest time.Duration
	Backup *BackupNote // nil: none was made
}

// Disk is the room on a disk, in bytes.
type Disk struct {
	Free  int64 `json:"free_bytes"`
	Total int64 `json:"total_bytes"`
}

// BackupNote is the last backup.
type BackupNote struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Bytes int64     `json:"bytes"`
}

const (
	backupName    = "backup"
	conditionWait = time.Second
)

// sized is a store that knows its size.
type sized interface{ Size() (int64, error) }

var errConditionWait = fmt.Errorf("the store did not answer within %s", conditionWait)

// Condition looks at the store and the disks. It does not wait long for a store that is away.
func (l *Ledger) Condition() (Condition, error) {
	c := Condition{Oldest: l.keeper.behind.age(l), Journal: diskOf(l.dir)}
	if l.node == nil {
		c.StoreDisk = diskOf(l.dir)
	}
	if !l.looking.CompareAndSwap(false, true) {
		return c, errConditionWait // a look before this one still waits
	}
	type seen struct {
		Condition
		err error
	}
	done := make(chan seen, 1)
	go func() {
		defer l.looking.Store(false)
		var s seen
		s.err = l.lookAtStore(&s.Condition)
		done <- s
	}()
	select {
	case s := <-done:
		c.Latency, c.Bytes, c.Backup = s.Latency, s.Bytes, s.Backup
		return c, s.err
	case <-time.After(conditionWait):
		return c, errConditionWait
	}
}

func (l *Ledger) lookAtStore(c *Condition) error {
	s, ok := l.store.(store.Settings)
	if !ok {
		return errors.New("this store has no settings")
	}
	began := time.Now()
	text, err := s.Setting(backupName)
	if err != nil {
		return err
	}
	c.Latency = time.Since(began)
	if len(text) > 0 {
		c.Backup = new(BackupNote)
		if err := json.Unmarshal(text, c.Backup); err != nil {
			return fmt.Errorf("cannot read when the last backup was made: %w", err)
		}
	}
	if s, ok := l.store.(sized); ok {
		c.Bytes, err = s.Size()
	}
	return err
}

func diskOf(dir string) *Disk {
	free, total, err := disk.Space(dir)
	if err != nil || total == 0 {
		return nil
	}
	return &Disk{free, total}
}

// noteBackup keeps who made the last backup.
func (l *Ledger) noteBackup(by string, bytes int64) error {
	s, ok := l.store.(store.Settings)
	if !ok {
		return nil
	}
	text, err := json.Marshal(BackupNote{fromMicro(l.now() / 1000), by, bytes})
	if err != nil {
		return err
	}
	return s.ChangeSetting(backupName, 0, func([]byte) ([]byte, error) { return text, nil })
}

// counted counts the written bytes.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// behind tells how far the store is behind the journal: the mark is a record with the time when it was the last one.
type behind struct {
	mu   sync.Mutex
	seq  uint64
	atNs int64 // of the monotonic clock
}

// advance moves the mark on once the store has it.
func (b *behind) advance(l *Ledger) {
	_, _, last := l.journal.Figures()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.atNs == 0 || l.project.ledgerSeq.Load() >= b.seq {
		b.seq, b.atNs = last, monotonic()
	}
}

func (b *behind) age(l *Ledger) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.atNs == 0 || l.project.ledgerSeq.Load() >= b.seq {
		return 0
	}
	return time.Duration(monotonic() - b.atNs)
}
