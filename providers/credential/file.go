package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// filePoll is how often a file is checked. A new token is there long before
	// the old one ends, and a refused one has the file read at once.
	filePoll = time.Second
	// settle is how long a file must be unchanged before it is read: not every writer
	// writes in one step.
	settle = 20 * time.Millisecond
	// leeway is how long a token is shown beyond the expiry that is in it: our
	// clock may be off, and the upstream judges.
	leeway = 30 * time.Second
	// maxSecretFile is more than any key or token file has.
	maxSecretFile = 64 << 10
)

// secretFile reads a small file again when it was written or replaced.
type secretFile struct {
	path string
	last os.FileInfo // of the last read file; nil: not read yet
}

// stale says that the file has changed since it was read last.
func (f *secretFile) stale() bool {
	info, err := os.Stat(f.path)
	return err != nil || f.last == nil || !os.SameFile(info, f.last) || info.Size() != f.last.Size() ||
		!info.ModTime().Equal(f.last.ModTime())
}

// read waits a moment for the writer of the file.
func (f *secretFile) read() ([]byte, error) {
	for try := 0; ; try++ {
		data, info, err := readSecret(f.path)
		if err != nil {
			return nil, err
		}
		if age := time.Since(info.ModTime()); age >= settle || age < 0 || try == 3 {
			f.last = info
			return data, nil
		}
		time.Sleep(settle)
	}
}

// readSecret names the path, which the operator wrote, and nothing of the content.
func readSecret(path string) ([]byte, os.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	if len(data) > maxSecretFile {
		return nil, nil, fmt.Errorf("%s has more than %d bytes; expected a key or a token", path, maxSecretFile)
	}
	return data, info, nil
}

func unreadable(path string, err error) error {
	if wrapped := new(fs.PathError); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}

// tokenFile is a source: another program writes tokens into a file.
type tokenFile struct {
	secretFile
	now  func() time.Time
	held fetchedToken
}

func newTokenFile(path string) *tokenFile {
	return &tokenFile{secretFile: secretFile{path: path}, now: time.Now}
}

// readToken gives the token that the file holds.
func (f *tokenFile) readToken() (fetchedToken, error) {
	data, err := f.secretFile.read()
	if err != nil {
		return fetchedToken{}, err
	}
	text := string(bytes.TrimSpace(data))
	if !plainToken(text) {
		f.last = nil
		return fetchedToken{}, fmt.Errorf("%s has no token; expected one line of printable ASCII, at most %d bytes", f.path,
			maxToken)
	}
	t := fetchedToken{value: text}
	if expires, ok := jwtExpiry(text); ok {
		t.expires = expires.Add(leeway)
	}
	return t, nil
}

// get is source. An older token never takes the place of one that still holds.
func (f *tokenFile) get(context.Context) (fetchedToken, error) {
	if f.held.value != "" && !f.stale() {
		if f.held.over(f.now()) {
			return fetchedToken{}, errOldFile
		}
		return f.held, nil
	}
	t, err := f.readToken()
	if err != nil {
		return fetchedToken{}, err
	}
	if t.over(f.now()) {
		if f.held.value == "" || f.held.over(f.now()) {
			f.held = t
		}
		return fetchedToken{}, errOldFile
	}
	f.held = t
	return t, nil
}

var errOldFile = errors.New("the token in token_file has expired; whatever writes the file must renew it")

// next is source.
func (f *tokenFile) next(fetchedToken, time.Time) time.Duration { return filePoll }

// jwtExpiry is the expiry of a token that is a JWT with one.
func jwtExpiry(text string) (time.Time, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	return expiryOfClaims(parts[1])
}
