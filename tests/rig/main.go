package rig

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"farebox/bench/servers"
)

// Main is the TestMain of each package: paths are those of the project, and the servers that
// tests shared are ended. These tests wait for processes more than they work, so that more of
// them run at once than there are processors; go test runs as many packages at once as those.
func Main(m *testing.M) {
	flag.Parse()
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		most := 4
		if RaceDetector() {
			most = 3
		}
		_ = flag.Set("test.parallel", strconv.Itoa(max(most, runtime.GOMAXPROCS(0))))
	}
	code := m.Run()
	servers.End()
	os.Exit(code)
}

// Seeded gives sources of random numbers, by number, from a seed that the test
// logs; FAREBOX_TEST_SEED repeats one.
func Seeded(t testing.TB) func(n uint64) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if again, err := strconv.ParseUint(os.Getenv("FAREBOX_TEST_SEED"), 10, 64); err == nil {
		seed = again
	}
	t.Logf("seed %d", seed)
	return func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
}
