package media

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
)

// local is a directory of this machine, or one that several machines see. A file is
// aa/bb/ID below it, by a hash of its id, so that no folder grows large however ids are
// made. A file that is being written lies in incoming under a name of its own.
type local struct {
	dir   string
	floor int64                           // bytes that stay free on its disk
	free  func(dir string) (int64, error) // below 0: it is not known
}

const (
	incoming = "incoming"
	// spaceStep is how much is written between two checks of the free space.
	spaceStep = 8 << 20
	copyStep  = 64 << 10
)

func openLocal(dir string, floor int64) *local {
	return &local{dir: dir, floor: floor, free: freeSpace}
}

// create makes the directory, which does not exist before the first file unless the config
// names it.
func (l *local) create() error {
	if err := os.MkdirAll(filepath.Join(l.dir, incoming), 0o700); err != nil {
		return err
	}
	return errors.Join(syncDir(l.dir), syncDir(filepath.Dir(l.dir)))
}

// clear removes the half-written files of dead processes: those without a write for so long
// that their writer is gone.
func (l *local) clear(now time.Time) error {
	dir := filepath.Join(l.dir, incoming)
	entries, err := os.ReadDir(dir)
	err = ignoreMissing(err)
	for _, e := range entries {
		info, gone := e.Info()
		if gone == nil && now.Sub(info.ModTime()) > Grace {
			err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(dir, e.Name()))))
		}
	}
	return err
}

// Name is Store.
func (l *local) Name() string { return l.dir }

// place is the path of a file, and of the folder that has it.
func (l *local) place(id string) (path, dir string, err error) {
	if err := checkID(id); err != nil {
		return "", "", err
	}
	sum := sha256.Sum256([]byte(id))
	dir = filepath.Join(l.dir, hex.EncodeToString(sum[:1]), hex.EncodeToString(sum[1:2]))
	return filepath.Join(dir, id), dir, nil
}

// Put is Store.
func (l *local) Put(ctx context.Context, id string, body io.Reader, contentType string, most int64) (int64, error) {
	path, dir, err := l.place(id)
	if err != nil {
		return 0, err
	}
	in, err := fit(body, contentType, most)
	if err != nil {
		return 0, err
	}
	if err := l.room(); err != nil {
		return 0, err
	}
	temp := filepath.Join(l.dir, incoming, id+"."+rand.Text())
	size, err := l.write(ctx, temp, in)
	if err == nil {
		err = l.publish(temp, path, dir)
	}
	if err != nil {
		_ = os.Remove(temp)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: make room on the disk of %s (%w)", asyncjob.ErrFull, l.dir, err)
		}
		return 0, err
	}
	return size, nil
}

// room says that less is free than the operator wants.
func (l *local) room() error {
	if l.floor <= 0 {
		return nil
	}
	free, err := l.free(l.dir)
	if err != nil || free < 0 || free >= l.floor {
		return nil
	}
	return fmt.Errorf("%w: %d MB are free on the disk of %s, and media.free_bytes keeps %s free", asyncjob.ErrFull, free>>20,
		l.dir, config.Size(l.floor))
}

// write makes a file of all of a body, on the disk when it returns.
func (l *local) write(ctx context.Context, path string, body io.Reader) (size int64, err error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = l.create(); err == nil {
			f, err = os.OpenFile(path, flags, 0o600)
		}
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		n, err := copyPart(f, body, spaceStep)
		size += n
		switch {
		case errors.Is(err, io.EOF):
			return size, f.Sync()
		case err != nil:
			return size, err
		}
		if err := errors.Join(ctx.Err(), l.room()); err != nil {
			return size, err
		}
	}
}

// publish gives a written file its name. A folder that is removed at the same time, because
// it was empty, is made again.
func (l *local) publish(temp, path, dir string) error {
	for tries := 0; ; tries++ {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		err := os.Rename(temp, path)
		if errors.Is(err, fs.ErrNotExist) && tries < 10 {
			continue
		}
		if err != nil {
			return err
		}
		// The name, and those of the folders above it, which may be new.
		return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)), syncDir(l.dir))
	}
}

// Open is Store.
func (l *local) Open(_ context.Context, id string, from, length int64) (io.ReadCloser, error) {
	path, _, err := l.place(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, none(err)
	}
	if from != 0 {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if length < 0 {
		return f, nil
	}
	return &part{io.LimitReader(f, length), f}, nil
}

// part is a piece of a file.
type part struct {
	io.Reader
	io.Closer
}

// Size is Store.
func (l *local) Size(_ context.Context, id string) (int64, error) {
	path, _, err := l.place(id)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, none(err)
	}
	return info.Size(), nil
}

// Delete is Store.
func (l *local) Delete(_ context.Context, id string) error {
	path, dir, err := l.place(id)
	if err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return err
	}
	_ = os.Remove(dir) // if it is empty
	return nil
}

// List is Store. It also removes files that were left half written.
func (l *local) List(ctx context.Context, each func(File) bool) error {
	if err := l.clear(time.Now()); err != nil {
		return err
	}
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && d.Name() == incoming:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if own, _, wrong := l.place(d.Name()); err != nil || wrong != nil || own != path || !info.Mode().IsRegular() {
			return nil // it is not one of our files
		}
		if !each(File{ID: d.Name(), Size: info.Size(), Changed: info.ModTime()}) {
			return fs.SkipAll
		}
		return nil
	})
	return err
}

func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes the names in a folder outlive a power cut, where a system can do that.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		// The folder above the one that is ours may not be; one that was removed has no
		// name to keep, since the file in it was deleted meanwhile.
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyStep); return &b }}

// copyPart writes at most so much of a reader, and says io.EOF at its end.
func copyPart(w io.Writer, r io.Reader, most int64) (n int64, err error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for n < most {
		k, err := r.Read(*buf)
		if k > 0 {
			if _, err := w.Write((*buf)[:k]); err != nil {
				return n, err
			}
			n += int64(k)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
