package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// leastRoom is the most that a start needs: a segment of the journal, and the room that the
// database needs to take over the last one.
const leastRoom = 48 << 20

// Advise adds to an error of a data directory an operator's remedy for
// it. SQLite's own words for a full disk are "disk I/O error (4874)".
func Advise(dir string, err error) error {
	is := func(list ...error) bool {
		for _, one := range list {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	code := 0
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		code = e.Code() & 0xff
	}
	switch {
	case err == nil:
		return nil
	case is(syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG) || code == sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; make room on the disk of %s, %d MB or more, and start again: "+
			"charges are safe in the journal", err, dir, leastRoom>>20)
	case is(syscall.EROFS, fs.ErrPermission) || code == sqlite3.SQLITE_READONLY ||
		code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w; farebox must be able to write to %s and everything in it: mount it writable, "+
			"give it to the user that farebox runs as, or choose another directory", err, dir)
	case code == sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%w; the disk of %s is full or broken: look at its free space, then at the system's log", err,
			dir)
	}
	return err
}

// List gives the paths of the files in dir whose names end so; none when there
// is not a dir. filepath.Glob would take parts of dir for a pattern.
func List(dir, suffix string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// WriteSecret makes a file that must be whole or not there at all: a half one,
// from a full disk or a power cut, would keep every later start from making it.
func WriteSecret(path string, content []byte) error {
	next := path + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync makes the names in dir durable. Windows cannot and need not.
func Sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
