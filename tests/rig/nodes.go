package rig

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// StartAnvil runs Foundry's EVM node until the test ends and gives its URL.
func StartAnvil(t *testing.T, args ...string) string {
	t.Helper()
	binary := packed(t, "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
	if _, err := exec.Command(binary, "--version").Output(); err != nil {
		// npm has it for one kind of machine here.
		if binary, err = exec.LookPath("anvil"); err != nil {
			t.Fatalf("anvil is not installed in %s: run make setup-long, or install Foundry", NodeDir)
		}
	}
	return startNode(t, t.TempDir(), binary, append(args, "--silent", "--host", "127.0.0.1", "--port")...)
}

// StartHardhat runs the EVM node of that name. args precede its command.
func StartHardhat(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{packed(t, "hardhat", "internal", "cli", "bootstrap.js")}, args...)
	return startNode(t, filepath.Join(NodeDir, "chain"), "node", append(args, "node", "--hostname", "127.0.0.1", "--port")...)
}

// packed is the path of a file in a package of npm.
func packed(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{NodeDir, "node_modules"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startNode runs one. The command gets the port as its last argument.
func startNode(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	out := &Output{}
	cmd := exec.Command(name, append(args, port)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "HARDHAT_DISABLE_TELEMETRY_PROMPT=true", "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v; run make setup-long", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return "http://" + addr
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen on %s\n%s", name, addr, out)
		}
	}
}
