package billing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"farebox/billing/disk"
	"farebox/billing/store"
)

// archive is a store that can be written to a file and read from one; both
// engines are.
type archive interface {
	store.Store
	// Dump writes everything as it is at one moment, and calls pinned when that
	// moment is past.
	Dump(w io.Writer, head store.DumpHead, pinned func()) (lines int64, err error)
	// Load reads a dump into this store, which must be empty.
	Load(r io.Reader) (store.DumpHead, error)
	Engine() string // for people
}

// BackupInfo describes the content of a backup.
type BackupInfo struct {
	Path      string    `json:"path"`
	CreatedAt time.Time `json:"created_at"`
	Engine    string    `json:"engine"` // that it was made from; any engine can take it
	Schema    int       `json:"schema"`
	Rows      int64     `json:"rows"`
	Bytes     int64     `json:"bytes"`
}

// BackUp writes the store as it is now to a new file, compressed, during
// traffic: accounts, keys with the hashes of their secrets, money,
// double entry and usage. The file is as secret as the store. Charges of this
// process are all in it up to the moment of the call; those that other nodes
// have not applied yet are not.
type BackUp struct {
	Path string `json:"path"` // absolute
}

func (b BackUp) carryOut(l *Ledger, c *call) (info BackupInfo, err error) {
	if !filepath.IsAbs(b.Path) {
		return info, fmt.Errorf("cannot write the backup: %q is not an absolute path", b.Path)
	}
	path := b.Path
	next := path + ".part"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return info, fmt.Errorf(
			"cannot write the backup: %s exists; another backup is being written, or one was cut off: remove it "+
				"then, or give a new name", next)
	}
	if err != nil {
		return info, fmt.Errorf("cannot write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(next)
		}
	}()
	if _, err := os.Lstat(path); err == nil {
		return info, fmt.Errorf("cannot write the backup: %s exists already, give a new name", path)
	}
	if info, err = l.WriteBackup(f, c.By.Name); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return info, fmt.Errorf("cannot write the backup: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, f.Close()); err != nil {
		return info, err
	}
	if err = errors.Join(os.Rename(next, path), disk.Sync(filepath.Dir(path))); err != nil {
		return info, err
	}
	info.Path, info.Bytes = path, size
	return info, nil
}

// WriteBackup writes a backup to w, for an operator.
func (l *Ledger) WriteBackup(w io.Writer, by string) (info BackupInfo, err error) {
	db, ok := l.store.(archive)
	if !ok {
		return info, errors.New("this store cannot be written to a file")
	}
	pepper, err := pepperOf(l)
	if err != nil {
		return info, err
	}
	out := &counted{w: w}
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return info, err
	}
	head := store.DumpHead{Engine: db.Engine(), CreatedUs: l.now() / 1000, Pepper: pepper}
	rows, err := dump(l, db, zip, head)
	if err = errors.Join(err, zip.Close()); err == nil {
		if err := l.noteBackup(by, out.n); err != nil {
			l.log.Warn().Err(err).Msg("the backup is good, but its time cannot be kept")
		}
	}
	return BackupInfo{CreatedAt: fromMicro(head.CreatedUs), Engine: head.Engine, Schema: store.Version, Rows: rows, Bytes: out.n}, err
}

// dump brings the store up to date and writes it while both cursors are at the
// same record, so that the copy needs no journal.
func dump(l *Ledger, db archive, w io.Writer, head store.DumpHead) (rows int64, err error) {
	if l.project == nil {
		return db.Dump(w, head, func() {}) // an operator's, without a journal
	}
	if err := l.project.drain(); err != nil {
		return 0, err
	}
	p := l.project
	p.mu.Lock()
	if err := p.level(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	return db.Dump(w, head, p.mu.Unlock)
}

// pepperOf is the secret that this store's keys are hashed with.
func pepperOf(l *Ledger) ([]byte, error) {
	fresh := newPepper()
	if _, shared := l.store.(store.Shared); !shared {
		var err error
		if fresh, err = loadPepper(l.dir); err != nil {
			return nil, err
		}
	}
	return l.store.Pepper(fresh)
}

// Restore fills an empty store, of whichever engine, from a backup, recounts it
// and describes the backup. A directory must not have a ledger yet.
func Restore(path string, o Options) (info BackupInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return info, fmt.Errorf("cannot read the backup: %w", err)
	}
	defer func() { _ = f.Close() }()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return info, fmt.Errorf("cannot read the backup %s: %w", path, store.ErrDump)
	}
	db, undo, err := emptyStore(&o)
	if err != nil {
		return info, err
	}
	head, err := db.Load(zip)
	if err == nil {
		err = keepPepper(db, &o, head.Pepper)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		undo()
		return info, fmt.Errorf("cannot restore %s: %w", path, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	return BackupInfo{Path: path, CreatedAt: fromMicro(head.CreatedUs), Engine: head.Engine, Schema: head.Schema,
		Bytes: size}, err
}

// emptyStore opens the store to restore into. undo removes the new files.
func emptyStore(o *Options) (_ archive, undo func(), err error) {
	if o.Shared != "" {
		db, err := store.OpenPostgres(o.Shared, o.storeAhead)
		return db, func() {}, err
	}
	for _, name := range []string{store.DatabaseFile, pepperFile, journalSub} {
		if _, err := os.Lstat(filepath.Join(o.Dir, name)); err == nil {
			return nil, nil, fmt.Errorf("cannot restore into %s: it has a ledger already, give an empty directory",
				o.Dir)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, nil, err
	}
	db, err := store.OpenSQLite(o.Dir)
	return db, func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(filepath.Join(o.Dir, store.DatabaseFile+suffix))
		}
		_ = os.Remove(filepath.Join(o.Dir, pepperFile))
	}, err
}

// keepPepper puts the backup's pepper where the restored store looks for it.
func keepPepper(db store.Store, o *Options, pepper []byte) error {
	kept, err := db.Pepper(pepper)
	if err != nil {
		return err
	}
	if !bytes.Equal(kept, pepper) {
		return errors.New("the store hashes keys in another way already: restore into a new database")
	}
	if o.Shared != "" {
		return nil
	}
	return disk.WriteSecret(filepath.Join(o.Dir, pepperFile), pepper)
}
