package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// instructions are those of the last stage of the Dockerfile.
func instructions(t *testing.T) (list [][2]string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^FROM `).Split(strings.ReplaceAll(string(text), "\\\n", ""), -1)
	for line := range strings.Lines("FROM " + stages[len(stages)-1]) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "" && !strings.HasPrefix(word, "#") {
			list = append(list, [2]string{word, strings.TrimSpace(rest)})
		}
	}
	return list
}

// "Kubernetes refused the image: runAsNonRoot, and its user has a name."
func TestTheImageHasANumberedUserAndAHealthCheck(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	copies := ""
	for _, i := range instructions(t) {
		if i[0] == "COPY" {
			copies += i[1] + "\n"
			continue
		}
		found[i[0]] = i[1]
	}
	if found["FROM"] != "scratch" || !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(found["USER"]) {
		t.Errorf("it is from %q with the user %q", found["FROM"], found["USER"])
	}
	if !strings.Contains(copies, "--chown="+found["USER"]+" /image /\n") || found["VOLUME"] != "/data" || found["WORKDIR"] != "/data" {
		t.Errorf("the volume %q is not the user's:\n%s", found["VOLUME"], copies)
	}
	_, check, _ := strings.Cut(found["HEALTHCHECK"], "CMD ")
	args := regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(check, -1)
	if len(args) < 2 || args[0][1] != "/farebox" || found["ENTRYPOINT"] != `["/farebox"]` {
		t.Fatalf("the health check is %q", check)
	}
	// Such a command exists, and reports the fault of an address without a listener.
	if out, err := rig.RunIn(t, t.TempDir(), args[1][1], "--url", "http://127.0.0.1:1"); rig.ExitCode(err) != 1 || !strings.Contains(out, "not healthy") {
		t.Errorf("%v: %s", err, out)
	}
}

// containerScript makes the root that the Dockerfile describes, with the mounts of every container. It runs farebox
// (static, as `make build` makes it) there as the image's user, who may write to /data and /tmp only. The other
// arguments are those of rig.
const containerScript = `set -e
root=$1 data=$2
mkdir -p $root/data $root/tmp $root/proc $root/dev $root/etc
touch $root/dev/null; cp $3 $root/farebox
mount --bind $root $root
mount --bind $data $root/data
mount -t tmpfs -o mode=1777 tmpfs $root/tmp
mount -t proc proc $root/proc
mount --bind /dev/null $root/dev/null
mount -o remount,bind,ro $root
cd $root
exec setpriv --no-new-privs chroot --userspec=%s --groups= $root /farebox serve -c /data/farebox.yaml --listen $8 --store /data/store
`

// "It worked on my machine; in the container it could not write." farebox runs on an empty
// root that is read-only, as the image's user, and reads documents there.
func TestLongTheImageRunsOnAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		servers.Missing(t, "the right to mount (root)")
	}
	user := ""
	for _, i := range instructions(t) {
		if i[0] == "USER" {
			user = i[1]
		}
	}
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+`
responses: { keep: 1h }
augment: { scrape: {}, text_parser: {} }
`)
	if out, err := exec.Command("chown", "-R", user, g.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	root := t.TempDir()
	g.Wrap = []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", fmt.Sprintf(containerScript, user), "sh", root, g.Dir}
	g.Addr = rig.FreeAddr(t) // without ListenAndStart, which links a folder that is not there
	g.Origin = "http://" + g.Addr
	g.URL = g.Origin + "/api/v1"
	g.Start()
	t.Cleanup(g.Cleanup)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.PID()))
	if err != nil || !regexp.MustCompile(`(?m)^Uid:\s+10001\s`).Match(status) || !regexp.MustCompile(`(?m)^CapEff:\s+0+$`).Match(status) {
		t.Errorf("%v: the process is\n%s", err, status)
	}
	g.NewAccount("a", "10")
	key := g.Key("a")
	if status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=3]] Go", "")); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	readsPDF(t, g.Origin, key)
	if out, err := exec.Command(filepath.Join(root, "farebox"), "health", "--url", g.Origin).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}
