package media

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"farebox/config"
)

// checkLimit bounds the check of a store.
const checkLimit = 30 * time.Second

// Check tries the store of a config as it will be used, and reports its state, or the fault
// and its remedy. It removes its own files; it makes no directory, which would belong to
// the checker.
func Check(ctx context.Context, cfg *config.Config) (good string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if cfg.Media.S3 == nil {
		return openLocal(cfg.MediaDir(), int64(cfg.Media.FreeBytes)).check()
	}
	b, err := openBucket("media.s3", cfg.Media.S3)
	if err != nil {
		return "", fmt.Errorf("cannot use media.s3: %w", err)
	}
	return b.check(ctx)
}

// check writes, reads, lists and deletes an object: each may need a right of its own.
func (b *bucket) check(ctx context.Context) (string, error) {
	id := "check-" + strings.ToLower(rand.Text())
	want := append([]byte("fLaC"), id...)
	if _, err := b.Put(ctx, id, bytes.NewReader(want), "audio/flac", 1<<10); err != nil {
		return "", err
	}
	err := b.tryReading(ctx, id, want)
	if err := errors.Join(err, b.Delete(ctx, id)); err != nil {
		return "", err
	}
	if _, err := b.Size(ctx, id); !errors.Is(err, ErrNone) {
		if err == nil {
			err = errors.New("a deleted file is still there; switch off versions and locks")
		}
		return "", fmt.Errorf("%s: %w", b.at, err)
	}
	return b.at + " keeps, hands out and deletes", nil
}

func (b *bucket) tryReading(ctx context.Context, id string, want []byte) error {
	r, err := b.Open(ctx, id, 4, -1)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("cannot be read in %s: %w", b.at, err)
	}
	if !bytes.Equal(got, want[4:]) {
		return fmt.Errorf("%s hands out other bytes than it was given; is another service, or a cache, in between?", b.at)
	}
	found := false
	if err := b.List(ctx, func(f File) bool {
		found = f.ID == id
		return !found
	}); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s does not list its files", b.at)
	}
	return nil
}

// check writes a file beside the stored ones.
func (l *local) check() (string, error) {
	info, err := os.Stat(l.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.dir + " is made when the first result is kept", nil
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", l.dir)
	case err != nil:
		return "", fmt.Errorf("cannot look into %s: %w", l.dir, err)
	}
	f, err := os.CreateTemp(l.dir, "check-")
	if err == nil {
		_, err = f.WriteString("farebox")
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return "", fmt.Errorf("cannot write to %s: %w; farebox must be able to", l.dir, err)
	}
	if err := l.room(); err != nil {
		return "", err
	}
	return l.dir + " can be written to", nil
}

// checkFile is the object that CheckFiles leaves. Exports need no right to delete.
const checkFile = "farebox-check"

// CheckFiles writes a small file to the bucket of a key of the config and reads it back. The file
// stays, and the next check replaces it.
func CheckFiles(ctx context.Context, key string, c *config.S3) (good string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	f, err := OpenFiles(key, c)
	if err != nil {
		return "", err
	}
	want := rand.Text()
	if err := f.put(ctx, strings.NewReader(want), int64(len(want)), checkFile); err != nil {
		return "", err
	}
	r, err := f.Open(ctx, checkFile)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(io.LimitReader(r, 1<<10))
	if err := errors.Join(err, r.Close()); err != nil {
		return "", fmt.Errorf("cannot read %s back from %s: %w", checkFile, f.Name(), err)
	}
	if string(got) != want {
		return "", fmt.Errorf("%s returns other bytes than were written; is another service, or a cache, in between?", f.Name())
	}
	return f.Name() + " can be written and read", nil
}
