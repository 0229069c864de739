package deploy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// bootScript makes a machine out of namespaces, in which systemd is the first process. Its
// files in /etc, /usr/bin and /var/lib go to the folder of the test.
const bootScript = `set -e
mount --make-rprivate /
mount -t proc proc /proc
for at in etc usr/bin var/lib; do
  mkdir -p $1/upper/$at $1/work/$at
  mount -t overlay overlay -o lowerdir=/$at,upperdir=$1/upper/$at,workdir=$1/work/$at /$at
done
mount -t tmpfs tmpfs /run
umount -R /sys/fs/cgroup 2>/dev/null || umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
eval "$2"
export container=test SYSTEMD_UNIT_PATH=$1/units
exec /lib/systemd/systemd --system --unit=basic.target --show-status=no
`

// machine is one that systemd runs.
type machine struct {
	t   *testing.T
	dir string
	pid int // of systemd
}

// boot starts a machine with unit files, after a script has installed their programs.
func boot(t *testing.T, install string, units ...string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.Missing(t, "the right to mount and to have control groups (root)")
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		servers.Missing(t, "systemd")
	}
	m := &machine{t: t, dir: t.TempDir()}
	dir := filepath.Join(m.dir, "units")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range units {
		text, err := os.ReadFile(filepath.Join(deployDir, "systemd", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sysinit", "basic", "sockets", "shutdown", "multi-user", "network-online"} { // nothing of this machine
		text := "[Unit]\nDescription=" + name + "\nDefaultDependencies=no\n"
		if err := os.WriteFile(filepath.Join(dir, name+".target"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	groups := regexp.MustCompile(`(?m)^\S+ (\S+) cgroup2 `).FindStringSubmatch(string(mounts))
	if groups == nil {
		servers.Missing(t, "a hierarchy of control groups (cgroup2)")
	}
	group := filepath.Join(groups[1], fmt.Sprintf("farebox-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	out := &rig.Output{}
	cmd := exec.Command("bash", "-c", bootScript, "bash", m.dir, install)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL, UseCgroupFD: true, CgroupFD: int(at.Fd()),
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // all others of its namespace end with it
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(m.dir, "upper", "var", "lib", "farebox.log"))
			t.Logf("%s\nthe log of the service:\n%s", out, rig.Last(string(log), 4000))
		}
		for try := 0; try < 100 && removeGroups(group) != nil; try++ {
			time.Sleep(20 * time.Millisecond)
		}
	})
	for end := time.Now().Add(rig.StartLimit); ; time.Sleep(50 * time.Millisecond) {
		if _, err := m.try("systemctl", "is-active", "basic.target"); err == nil {
			return m
		}
		if time.Now().After(end) {
			t.Fatalf("systemd does not start:\n%s", out)
		}
	}
}

// removeGroups removes a control group with those below it.
func removeGroups(group string) error {
	below, _ := filepath.Glob(filepath.Join(group, "*/"))
	for _, g := range below {
		if info, err := os.Stat(g); err == nil && info.IsDir() {
			_ = removeGroups(g)
		}
	}
	return os.Remove(group)
}

func (m *machine) try(args ...string) (string, error) {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--"}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+filepath.Join(m.dir, "units"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// "On our servers the unit of the README did not start: the sandbox forbade a system call that
// reading PDFs needs." The units run under a real systemd, with all that they forbid.
func TestLongUnitsRunUnderSystemd(t *testing.T) {
	t.Parallel()
	port := ports(t, "8080").Replace("8080")
	conf := t.TempDir()
	rewritten, err := os.ReadFile(filepath.Join(deployDir, "systemd", "farebox.sysusers"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"farebox.sysusers": string(rewritten), "farebox.yaml": fmt.Sprintf(`
listen: 127.0.0.1:%s
store: /var/lib/farebox
server: { metrics_listen: "off", drain_timeout: 5s }
augment: { text_parser: {} }
upstreams: [{ name: only, base_url: "http://127.0.0.1:9", key: "${file:secrets/openai}" }]
models: [{ id: m, context_tokens: 8192, price: free, targets: [{ upstream: only }] }]
`, port)} {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	install := fmt.Sprintf(`
sed -i s/8080/%s/ $1/units/farebox.socket
mkdir $1/units/farebox.service.d
printf '[Service]\nStandardOutput=append:/var/lib/farebox.log\nStandardError=append:/var/lib/farebox.log\n' >$1/units/farebox.service.d/log.conf
install -m 755 %q /usr/bin/farebox
install -m 644 -D %[3]s/farebox.sysusers /etc/sysusers.d/farebox.conf
systemd-sysusers /etc/sysusers.d/farebox.conf
install -d -m 750 -g farebox /etc/farebox /etc/farebox/secrets
install -m 640 -g farebox %[3]s/farebox.yaml /etc/farebox/farebox.yaml
echo sk-test >/etc/farebox/secrets/openai; chgrp farebox /etc/farebox/secrets/openai; chmod 640 /etc/farebox/secrets/openai
`, port, rig.Binary(t), conf)
	m := boot(t, install, "farebox.service", "farebox.socket")
	if out := m.run("systemd-analyze", "verify", "--man=no", "farebox.service", "farebox.socket"); strings.Contains(out, "farebox") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	m.run("systemctl", "start", "farebox.socket")
	origin := "http://127.0.0.1:" + port
	// The first client starts the service through the socket.
	if out, err := m.try("farebox", "health", "--url", origin, "--timeout", "30s"); err != nil {
		t.Fatalf("%s\n%s", out, m.run("systemctl", "status", "farebox.service"))
	}
	show := func(property string) string {
		return strings.TrimSpace(m.run("systemctl", "show", "farebox.service", "--value", "-p", property))
	}
	if who := strings.TrimSpace(m.run("ps", "-o", "user=", "-p", show("MainPID"))); who != "farebox" {
		t.Errorf("it runs as %s", who)
	}

	// The operator's commands, as the page has them, and a document that is read in a child.
	cli := func(args ...string) string {
		return m.run(append([]string{"runuser", "-u", "farebox", "--", "env", "-C", "/etc/farebox", "farebox"}, args...)...)
	}
	cli("account", "create", "-c", "farebox.yaml", "--name", "a")
	cli("account", "credit", "-c", "farebox.yaml", "a", "10")
	key := regexp.MustCompile(`SVC_INFERENCE_KEY_\S+`).FindString(cli("key", "create", "-c", "farebox.yaml", "--account", "a"))
	readsPDF(t, origin, key)

	// Clients that arrive during a restart are served.
	var wg sync.WaitGroup
	var served atomic.Int64
	over := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			c := &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
				res, err := c.Get(origin + "/healthz")
				if err != nil || res.StatusCode != 200 {
					t.Errorf("during a restart: %v %v", res, err)
					return
				}
				_ = res.Body.Close()
				served.Add(1)
			}
		})
	}
	before := show("MainPID")
	m.run("systemctl", "restart", "farebox.service")
	m.run("systemctl", "reload", "farebox.service")
	time.Sleep(500 * time.Millisecond)
	close(over)
	wg.Wait()
	if now := show("MainPID"); now == before || now == "0" || served.Load() == 0 {
		t.Errorf("after a restart the process is %s, before %s; %d calls were served", now, before, served.Load())
	}
	readsPDF(t, origin, key)
	m.run("systemctl", "stop", "farebox.socket", "farebox.service")
	if result := show("Result"); result != "success" {
		t.Errorf("it ended with %s", result)
	}
	cli("verify", "-c", "farebox.yaml")

	score := regexp.MustCompile(`exposure level for farebox.service: ([0-9.]+)`).FindStringSubmatch(
		m.run("systemd-analyze", "security", "--offline=true", "--no-pager", filepath.Join(m.dir, "units", "farebox.service")))
	if score == nil || score[1] > "1.9" {
		t.Errorf("systemd-analyze security gives %v", score)
	}
	t.Logf("exposure %v (0 is best, 10 worst), %d calls during a restart", score[1], served.Load())
}
