package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// manifest reads a YAML file of one document into a value.
func manifest(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

type composeFile struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Networks    any
		Volumes     []string
		Ports       []string
		Secrets     []any
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
		ReadOnly    bool   `yaml:"read_only"`
		StopGrace   string `yaml:"stop_grace_period"`
	}
	Secrets map[string]struct{ File string }
	Volumes map[string]any
}

type statefulSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args []string
					Env  []struct{ Name, Value string }
				}
				Volumes []struct {
					Name      string
					Projected struct {
						Sources []struct {
							Secret struct{ Items []struct{ Key, Path string } }
						}
					}
				}
			}
		}
	}
}

// The one config is good for each way to run farebox, with the environment of that way.
func TestTheConfigIsGoodForEachWay(t *testing.T) {
	t.Parallel()
	var compose composeFile
	manifest(t, "compose/compose.yaml", &compose)
	var set statefulSet
	manifest(t, "kubernetes/statefulset.yaml", &set)
	text, err := os.ReadFile(filepath.Join(deployDir, "farebox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{(FAREBOX_[A-Z_]+):-`).FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = true
	}
	ways := map[string]map[string]string{"by hand": {}, "Kubernetes": {}}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		ways["Kubernetes"][e.Name] = e.Value
	}
	for name, s := range compose.Services {
		if strings.HasPrefix(name, "node-") {
			ways["compose, "+name] = s.Environment
		}
	}
	if len(ways) != 4 {
		t.Fatalf("%d ways are found", len(ways))
	}
	for way, env := range ways {
		dir := t.TempDir()
		for file, content := range map[string]string{"farebox.yaml": string(text), "secrets/postgres": "p", "secrets/openai": "sk-test"} {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(rig.Binary(t), "check", "-c", "farebox.yaml")
		cmd.Dir, cmd.Env = dir, rig.Env(t)
		for name, value := range env {
			if strings.HasPrefix(name, "FAREBOX_") && !known[name] {
				t.Errorf("%s sets %s, which the config does not read", way, name)
			}
			if def := regexp.MustCompile(`\$\{[A-Z_]+:-(.*)\}`).FindStringSubmatch(value); def != nil {
				value = def[1]
			}
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "farebox.yaml is good") {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
	}
}

// "The pod was killed in the middle of its streams." All that stops or leaves a node alone
// gives it the time that its config takes.
func TestNodesHaveTheTimeToEnd(t *testing.T) {
	t.Parallel()
	read := func(file, pattern string) time.Duration {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(deployDir, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		n := found[1]
		if strings.Trim(n, "0123456789") == "" {
			n += "s"
		}
		d, err := time.ParseDuration(n)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	delay := read("farebox.yaml", `drain_delay: \$\{FAREBOX_DRAIN_DELAY:-(\w+)\}`)
	whole := delay + read("farebox.yaml", `drain_timeout: (\w+)`) + 15*time.Second
	for file, pattern := range map[string]string{
		"systemd/farebox.service": `TimeoutStopSec=(\d+)`, "compose/compose.yaml": `stop_grace_period: (\w+)`,
		"kubernetes/statefulset.yaml": `terminationGracePeriodSeconds: (\d+)`,
	} {
		if d := read(file, pattern); d < whole {
			t.Errorf("%s gives a node %s to end, which may take %s", file, d, whole)
		}
	}
	for file, pattern := range map[string]string{
		"nginx/farebox.conf": `keepalive_timeout (\w+);`, "caddy/Caddyfile": `keepalive (\w+)\n`,
	} {
		if d := read(file, pattern); d >= delay {
			t.Errorf("%s keeps connections for %s, longer than a node that ends listens: %s", file, d, delay)
		}
	}
	for file, pattern := range map[string]string{
		"caddy/Caddyfile": `health_interval (\w+)`, "kubernetes/statefulset.yaml": `readinessProbe:\s+httpGet: .*\s+periodSeconds: (\d+)\s+failureThreshold: 1\n`,
	} {
		if d := read(file, pattern); d > delay/2 {
			t.Errorf("%s looks every %s whether a node takes work; it says for %s that it does not", file, d, delay)
		}
	}
}

// "docker compose up: no such file." The files that the compose file names exist, and
// ports with revenue or data are not published.
func TestComposeNamesWhatExists(t *testing.T) {
	t.Parallel()
	var c composeFile
	manifest(t, "compose/compose.yaml", &c)
	dir := filepath.Join(deployDir, "compose")
	nodes, err := os.ReadFile(filepath.Join(dir, "farebox-nodes.conf"))
	if err != nil {
		t.Fatal(err)
	}
	scraped, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string {
		networks, _ := c.Services[name].Networks.(map[string]any)
		inside, _ := networks["inside"].(map[string]any)
		s, _ := inside["ipv4_address"].(string)
		return s
	}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(source, ".") {
				if _, declared := c.Volumes[source]; !declared {
					t.Errorf("%s: the volume %s is not declared", name, source)
				}
			} else if _, err := os.Stat(filepath.Join(dir, source)); err != nil && !strings.HasPrefix(source, "./secrets/") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, secret := range s.Secrets {
			source, _ := secret.(string)
			if long, ok := secret.(map[string]any); ok {
				source, _ = long["source"].(string)
			}
			if _, declared := c.Secrets[source]; !declared {
				t.Errorf("%s: the secret %v is not declared", name, secret)
			}
		}
		for on, how := range s.DependsOn {
			if how.Condition != "service_healthy" || len(c.Services[on].Healthcheck.Test) == 0 {
				t.Errorf("%s waits for %s, which says nothing about its health", name, on)
			}
		}
		for _, port := range s.Ports {
			if name != "nginx" && !strings.HasPrefix(port, "127.0.0.1:") || slices.Contains([]string{"node-1", "node-2", "postgres", "redis"}, name) {
				t.Errorf("%s publishes %s", name, port)
			}
		}
		if !strings.HasPrefix(name, "node-") {
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/farebox", "health", "-c", s.Command[2]}) || s.StopGrace == "" {
			t.Errorf("%s: read-only %t, health by %v", name, s.ReadOnly, s.Healthcheck.Test)
		}
		if at(name) == "" || !strings.Contains(string(nodes), "server "+at(name)+":8080 ") || s.Environment["FAREBOX_PROXY"] != at("nginx") {
			t.Errorf("%s is at %q; nginx at %q asks\n%s", name, at(name), at("nginx"), nodes)
		}
		if !strings.Contains(string(scraped), `"`+name+`:9464"`) {
			t.Errorf("Prometheus does not ask %s:\n%s", name, scraped)
		}
	}
	if len(c.Services) < 7 {
		t.Errorf("%d services are found", len(c.Services))
	}
}

// The manifests are those of the versions of Kubernetes and of Compose that are in use, down
// to the last member.
func TestLongManifestsAreValid(t *testing.T) {
	t.Parallel()
	python := filepath.Join("tests", "deploy", ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		servers.Missing(t, python)
	}
	files, err := filepath.Glob(filepath.Join(deployDir, "kubernetes", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%v %v", files, err)
	}
	validate := func(kind string, files ...string) string {
		t.Helper()
		out, err := exec.Command(python, append([]string{filepath.Join("tests", "deploy", "validate.py"), kind}, files...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	said := validate("kubernetes", files...)
	for _, kind := range []string{"StatefulSet", "Service farebox-nodes", "PodDisruptionBudget", "NetworkPolicy", "Ingress", "Secret"} {
		if !strings.Contains(said, kind) {
			t.Errorf("no %s is validated:\n%s", kind, said)
		}
	}
	validate("compose", filepath.Join(deployDir, "compose", "compose.yaml"))

	// An example of a mistake.
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	text, err := os.ReadFile(filepath.Join(deployDir, "kubernetes", "statefulset.yaml"))
	if err == nil {
		err = os.WriteFile(wrong, []byte(strings.Replace(string(text), "readinessProbe:", "readyProbe:", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, filepath.Join("tests", "deploy", "validate.py"), "kubernetes", wrong).CombinedOutput(); err == nil {
		t.Errorf("a wrong member is valid: %s", out)
	}

	var k struct{ Resources []string }
	manifest(t, "kustomization.yaml", &k)
	for _, file := range k.Resources {
		if _, err := os.Stat(filepath.Join(deployDir, file)); err != nil {
			t.Error(err)
		}
	}
	if kubectl, err := exec.LookPath("kubectl"); err != nil {
		t.Log("kubectl is not installed: the kustomization is not built")
	} else if out, err := exec.Command(kubectl, "kustomize", deployDir).Output(); err != nil || strings.Count("\n"+string(out), "\nkind: ") != 7 {
		t.Errorf("kubectl kustomize: %v\n%s", err, out)
	} else {
		built := filepath.Join(t.TempDir(), "built.yaml")
		if err := os.WriteFile(built, out, 0o600); err != nil {
			t.Fatal(err)
		}
		validate("kubernetes", built)
	}
}
