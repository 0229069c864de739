package rig

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
)

// Binary is $FAREBOX_BIN, as `make` sets it, or else one built for the packages
// of a run: the first builds it, the others find it up to date.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("FAREBOX_BIN"); path != "" {
		return filepath.Abs(path)
	}
	return build(builtWithRace())
})

// plainBinary has no race detector: $FAREBOX_CLI or, where the binary under test
// has one, another that is built without.
var plainBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("FAREBOX_CLI"); path != "" {
		return filepath.Abs(path)
	}
	if !RaceDetector() {
		return binary()
	}
	return build(false)
})

func build(race bool) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("farebox-test-%d-%08x", os.Getuid(),
		crc32.ChecksumIEEE([]byte(root))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "farebox")
	args := []string{"build", "-tags", "nodynamic"}
	if race {
		path += "-race"
		args = append(args, "-race")
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if out, err := exec.Command("go", append(args, "-o", path, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build farebox: %w\n%s", err, out)
	}
	return path, nil
}

// RaceDetector says whether the binary under test has the race detector, which
// makes it several times slower.
var RaceDetector = sync.OnceValue(func() bool {
	path := os.Getenv("FAREBOX_BIN")
	if path == "" {
		return builtWithRace()
	}
	info, err := buildinfo.ReadFile(path)
	return err == nil && hasRace(info)
})

// builtWithRace says whether the tests themselves have the race detector.
func builtWithRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && hasRace(info)
}

func hasRace(info *debug.BuildInfo) bool {
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// RunIn runs farebox in a folder and gives all that it printed.
func RunIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// operatorBinary runs commands that only prepare a test, which need not run under
// the race detector: that makes them slow.
func operatorBinary(t testing.TB) string {
	t.Helper()
	path, err := plainBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Env is the environment that a gateway is started with. Under the race detector it
// starts children without that, which are ready at once: see providers/jail.
func Env(t testing.TB) []string {
	t.Helper()
	if !RaceDetector() {
		return os.Environ()
	}
	return append(os.Environ(), "FAREBOX_JAIL="+operatorBinary(t))
}

// ExitCode is the exit status in an error of Stop or TryCLI; 0 when it is nil, -1
// when the process ended by a signal or never ran.
func ExitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
