package servers

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Chromium finds a browser, or installs one where that can be done: half a
// minute.
func Chromium(tb testing.TB) (path string) {
	tb.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	install(tb, names[0])
	return Tool(tb, names...)
}

// StartChromium runs the browser at path as an operator does for others, and gives
// the address at which it takes orders.
func StartChromium(tb testing.TB, path string) (address string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "farebox-test-browser-")
	if err != nil {
		tb.Fatal(err)
	}
	args := []string{"--headless", "--remote-debugging-port=0", "--user-data-dir=" + dir, "--disable-gpu",
		"--no-first-run", "--disable-dev-shm-usage", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
		"about:blank"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	c := exec.Command(path, args...)
	said, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		for end := time.Now().Add(5 * time.Second); os.RemoveAll(dir) != nil && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond) // its children write on for a moment
		}
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return address
		}
	}
	tb.Fatal("the browser does not say where it listens")
	return ""
}
