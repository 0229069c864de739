package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// SuiteLimit is how long a client's own tests may take.
const SuiteLimit = 4 * time.Minute

// NodeDir holds the tests and packages of Node.
var NodeDir = filepath.Join("bench", "clients", "node")

// RunSuite runs a client's own test runner against the gateway, with further
// variables in its environment, and fails with its output.
func (g *Gateway) RunSuite(t *testing.T, environment []string, dir string, command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), SuiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "FAREBOX_URL="+g.URL, "NO_COLOR=1"), environment...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v failed: %v\n%s", command, err, out)
	}
	return out
}

// Counted makes sure that a runner which found nothing does not pass.
func Counted(t *testing.T, out []byte, pattern string) {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(out)
	if found == nil || string(found[1]) == "0" {
		t.Errorf("the runner found no tests\n%s", out)
		return
	}
	t.Logf("%s tests", found[1])
}
