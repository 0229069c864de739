package servers

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// Tool finds a program that a test needs. Where it is not installed the test
// fails, unless FAREBOX_TEST_TOOLS=off.
func Tool(tb testing.TB, names ...string) (path string) {
	tb.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(tb, names[0])
	return ""
}

// Missing ends a test that needs something which .ci/setup installs: it fails,
// unless FAREBOX_TEST_TOOLS=off leaves such tests out.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("FAREBOX_TEST_TOOLS") == "off" {
		tb.Skip(what + " is not installed, and FAREBOX_TEST_TOOLS is off")
	}
	tb.Fatal(what + " is not installed; .ci/setup installs it, FAREBOX_TEST_TOOLS=off leaves its tests out")
}

// Elsewhere ends a test that needs something which only Linux has for certain:
// there it fails, on other systems it is left out.
func Elsewhere(tb testing.TB, what string) {
	tb.Helper()
	if runtime.GOOS == "linux" {
		tb.Fatal("there is no " + what)
	}
	tb.Skip("this system has no " + what)
}

// install tries to install a package of Debian that only long tests need.
func install(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return
	}
	_ = exec.Command("apt-get", "update", "-qq").Run()
	c := exec.Command("apt-get", "install", "-y", "-qq", "--no-install-recommends", name)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := c.CombinedOutput()
	tb.Logf("installing %s: %v %.500s", name, err, out)
}
