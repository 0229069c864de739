package media

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
)

const someID = "0b6e4f0e-6c0f-4a53-9d5f-9c7e6a6f8d21"

// wave is a body that begins as WAV files do.
func wave(size int) []byte {
	b := bytes.Repeat([]byte{0x5a}, size)
	copy(b, "RIFF\x00\x00\x00\x00WAVEfmt ")
	return b
}

func newLocal(t *testing.T) *local {
	t.Helper()
	return openLocal(filepath.Join(t.TempDir(), "media"), 0)
}

func read(t *testing.T, s Store, id string, from, length int64) []byte {
	t.Helper()
	r, err := s.Open(context.Background(), id, from, length)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// everyFile is all that lies below a directory.
func everyFile(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// conforms checks the rules of every Store.
func conforms(t *testing.T, s Store) {
	ctx := context.Background()
	want := wave(300_000)
	if n, err := s.Put(ctx, someID, bytes.NewReader(want), "audio/wav", 1<<20); err != nil || n != int64(len(want)) {
		t.Fatalf("Put gives %d, %v", n, err)
	}
	if n, err := s.Size(ctx, someID); err != nil || n != int64(len(want)) {
		t.Errorf("Size gives %d, %v", n, err)
	}
	for _, r := range [][3]int64{{0, -1, 300_000}, {0, 10, 10}, {299_999, 1, 1}, {5, 70_000, 70_000}, {7, -1, 299_993}} {
		if got := read(t, s, someID, r[0], r[1]); !bytes.Equal(got, want[r[0]:r[0]+r[2]]) {
			t.Errorf("%d bytes from %d: %d bytes that are not those", r[1], r[0], len(got))
		}
	}
	var all []File
	if err := s.List(ctx, func(f File) bool { all = append(all, f); return true }); err != nil || len(all) != 1 ||
		all[0].ID != someID || all[0].Size != int64(len(want)) || diskTime(t).Sub(all[0].Changed).Abs() > time.Hour {
		t.Errorf("List returns %+v, %v", all, err)
	}

	// Another body takes its place at once and whole, and an open file can be read on.
	open, err := s.Open(ctx, someID, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	next := wave(1000)
	if n, err := s.Put(ctx, someID, bytes.NewReader(next), "audio/x-wav; codecs=1", 1<<20); err != nil || n != 1000 {
		t.Fatalf("Put gives %d, %v", n, err)
	}
	if got := read(t, s, someID, 0, -1); !bytes.Equal(got, next) {
		t.Errorf("after it was replaced there are %d bytes", len(got))
	}
	_ = open.Close()

	for name, put := range map[string]struct {
		body io.Reader
		typ  string
	}{
		"a page":       {strings.NewReader("<!doctype html><title>502 Bad Gateway</title>"), "audio/wav"},
		"an error":     {strings.NewReader(`{"error":"quota exceeded"}`), "audio/mpeg"},
		"a movie":      {strings.NewReader("\x00\x00\x00\x18ftypisom\x00\x00\x02\x00"), "audio/wav"},
		"nothing":      {strings.NewReader(""), "audio/wav"},
		"too large":    {io.MultiReader(bytes.NewReader(wave(600)), endless{}), "audio/wav"},
		"another type": {bytes.NewReader(wave(600)), "text/html"},
	} {
		u := (*Unfit)(nil)
		if n, err := s.Put(ctx, someID, put.body, put.typ, 1<<20); !errors.As(err, &u) {
			t.Errorf("%s: Put gives %d, %v", name, n, err)
		}
	}
	broken := errors.New("the upstream went away")
	if _, err := s.Put(ctx, someID, io.MultiReader(bytes.NewReader(wave(100_000)), failing{broken}), "audio/wav",
		1<<20); !errors.Is(err, broken) {
		t.Errorf("a body that breaks off: %v", err)
	}
	if got := read(t, s, someID, 0, -1); !bytes.Equal(got, next) {
		t.Errorf("a body that was not kept has changed the file: %d bytes", len(got))
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if _, err := s.Put(gone, someID, bytes.NewReader(wave(20<<20)), "audio/wav", 1<<30); err == nil {
		t.Error("a Put whose time is over is carried on")
	}

	if err := s.Delete(ctx, someID); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, someID); err != nil {
		t.Errorf("Delete of a deleted file: %v", err)
	}
	if _, err := s.Open(ctx, someID, 0, -1); !errors.Is(err, ErrNone) {
		t.Errorf("Open of a deleted file: %v", err)
	}
	if _, err := s.Size(ctx, someID); !errors.Is(err, ErrNone) {
		t.Errorf("Size of a deleted file: %v", err)
	}
	all = nil
	if err := s.List(ctx, func(f File) bool { all = append(all, f); return true }); err != nil || len(all) != 0 {
		t.Errorf("List returns %+v, %v", all, err)
	}
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestADirectoryKeepsFiles(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	conforms(t, l)
	if left := everyFile(t, l.dir); len(left) != 0 {
		t.Errorf("leftovers: %v", left)
	}
}

// An id that leads outside the directory cannot be read.
func TestNoIDLeadsOutOfTheDirectory(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	for _, id := range []string{"", "short", "../../../../etc/passwd", "aaaaaaaa/../../x", "aaaaaaaa\x00", "..",
		"aaaaaaaa.tmp",
		"AAAAAAAA-BBBB", `aaaaaaaa\..\x`, "-aaaaaaaaa", strings.Repeat("a", 65), "aaaaaaaa\n", "ааааааааа"} {
		if _, err := l.Put(t.Context(), id, bytes.NewReader(wave(100)), "audio/wav", 1000); err == nil {
			t.Errorf("%q is written", id)
		}
		if _, err := l.Open(t.Context(), id, 0, -1); !errors.Is(err, errID) {
			t.Errorf("Open of %q: %v", id, err)
		}
		if _, err := l.Size(t.Context(), id); !errors.Is(err, errID) {
			t.Errorf("Size of %q: %v", id, err)
		}
		if err := l.Delete(t.Context(), id); !errors.Is(err, errID) {
			t.Errorf("Delete of %q: %v", id, err)
		}
	}
}

func TestOtherUsersOfTheMachineCannotReadThem(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	if _, err := l.Put(t.Context(), someID, bytes.NewReader(wave(100)), "audio/wav", 1000); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(l.dir, func(path string, d os.DirEntry, err error) error {
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// diskTime is the time that files get, which may be another one than the process has.
func diskTime(t *testing.T) time.Time {
	t.Helper()
	path := filepath.Join(t.TempDir(), "now")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// A file that a dying process left half written is removed once no process can be writing
// it: another process may share the directory.
func TestLeftoversGoOnceTheyAreOld(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	if err := l.create(); err != nil {
		t.Fatal(err)
	}
	old, young := filepath.Join(l.dir, incoming, someID+".OLD"), filepath.Join(l.dir, incoming, someID+".YOUNG")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, wave(100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stray := filepath.Join(l.dir, "notes.txt")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	past := now.Add(-2 * Grace)
	if err := errors.Join(os.Chtimes(old, past, past), os.Chtimes(young, now, now)); err != nil {
		t.Fatal(err)
	}
	if err := l.List(t.Context(), func(f File) bool { t.Errorf("listed: %+v", f); return true }); err != nil {
		t.Fatal(err)
	}
	if left := everyFile(t, l.dir); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

func TestSomeOfTheDiskStaysFree(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.floor = 1 << 30
	free := int64(1<<30 - 1)
	l.free = func(string) (int64, error) { return free, nil }
	_, err := l.Put(t.Context(), someID, bytes.NewReader(wave(100)), "audio/wav", 1000)
	if !errors.Is(err, asyncjob.ErrFull) || !strings.Contains(err.Error(), "media.free_bytes keeps 1GB free") {
		t.Errorf("Put says %v", err)
	}
	// It runs low while a large file is written.
	looks := 0
	l.free = func(string) (int64, error) {
		looks++
		return 1<<30 + 2*spaceStep - int64(looks)*spaceStep, nil
	}
	if _, err := l.Put(t.Context(), someID, bytes.NewReader(wave(6*spaceStep)), "audio/wav",
		1<<30); !errors.Is(err, asyncjob.ErrFull) {
		t.Errorf("Put says %v", err)
	}
	if left := everyFile(t, l.dir); len(left) != 0 {
		t.Errorf("leftovers: %v", left)
	}
}

func TestADirectoryIsTried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := &config.Config{Media: config.Default[config.Media]()}
	cfg.Media.FreeBytes = 0
	cfg.Media.Dir = filepath.Join(dir, "later")
	good, err := Check(t.Context(), cfg)
	if _, there := os.Stat(cfg.Media.Dir); err != nil || !strings.Contains(good, "is made when") || there == nil {
		t.Errorf("one that is not there yet: %q, %v, %v", good, err, there)
	}
	cfg.Media.Dir = dir
	if good, err := Check(t.Context(), cfg); err != nil || !strings.Contains(good, "can be written") {
		t.Errorf("it is said %q, %v", good, err)
	}
	if left := everyFile(t, dir); len(left) != 0 {
		t.Errorf("leftovers: %v", left)
	}
	cfg.Media.FreeBytes = 1 << 60
	if _, err := Check(t.Context(), cfg); !errors.Is(err, asyncjob.ErrFull) {
		t.Errorf("a full disk: %v", err)
	}
	cfg.Media.Dir = filepath.Join(dir, "file")
	if err := os.WriteFile(cfg.Media.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
}
