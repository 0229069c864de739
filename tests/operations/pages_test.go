package operations

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// block is a fenced block of a page, with the comment on the line before it.
type block struct {
	line           int
	language, text string
	note           string
}

// blocks reads the fenced blocks of a page.
func blocks(t *testing.T, page string) (list []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	note := ""
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: i + 1, language: fence, note: note}
		case isFence:
			list, open, note = append(list, *open), nil, ""
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(strings.TrimSpace(line), "<!--"):
			note = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "<!--"), "-->"))
		case strings.TrimSpace(line) != "":
			note = ""
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return list
}

// reader copies the blocks of a page into a shell.
type reader struct {
	t           *testing.T
	dir         string // current directory
	farebox     string
	origin      string // of his gateway
	admin, key  string
	desk, token string // of operators
	environment []string
}

// newReader starts the demonstration as README says, and reads its banner.
func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir()}
	addr := rig.FreeAddr(t)
	cmd := exec.Command(rig.Binary(t), "serve", "--listen", addr)
	cmd.Dir, cmd.Env = r.dir, rig.Env(t)
	out := &rig.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("farebox did not stop with status 0: %v", err)
		}
	})
	keys := regexp.MustCompile(`SVC_(ADMIN|INFERENCE)_KEY_[A-Za-z0-9_-]+`)
	for end := time.Now().Add(rig.StartLimit); !strings.Contains(out.String(), "curl "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no banner within %s:\n%s", rig.StartLimit, out)
		}
	}
	for _, key := range keys.FindAllString(out.String(), -1) {
		if strings.HasPrefix(key, "SVC_ADMIN") {
			r.admin = key
		} else {
			r.key = key
		}
	}
	r.desk = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/operator/v1`).FindString(out.String())
	r.token = regexp.MustCompile(`fbo_[A-Za-z0-9]+`).FindString(out.String())
	r.origin = "http://" + addr
	if err := os.WriteFile(filepath.Join(r.dir, "farebox.yaml"), []byte(operatorsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	r.farebox = filepath.Join(bin, "farebox")
	for link, target := range map[string]string{
		r.farebox: rig.Binary(t), filepath.Join(r.dir, "node_modules"): absolute(t, "bench/clients/node/node_modules"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	r.environment = append(rig.Env(t), "PATH="+bin+":"+os.Getenv("PATH"), "API="+r.origin+"/api/v1", "FAREBOX_KEY="+r.key, "NO_COLOR=1",
		"DESK="+r.desk, "TOKEN="+r.token)
	return r
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// prelude makes curl fail on an answer that is an error.
const prelude = "set -euo pipefail\ncurl() { command curl --fail-with-body -sS \"$@\"; }\n"

// run runs a block, and says why it cannot be run; empty: it was.
func (r *reader) run(b *block) (why string, err error) {
	if reason, ok := strings.CutPrefix(b.note, "not run"); ok {
		_, why, _ = strings.Cut(reason, ":")
		if why = strings.TrimSpace(why); why == "" {
			return "", fmt.Errorf("the comment before it says no reason")
		}
		return why, nil
	}
	text := strings.NewReplacer("http://127.0.0.1:8080", r.origin, "SVC_INFERENCE_KEY_…", r.key, "SVC_ADMIN_KEY_…", r.admin,
		"http://127.0.0.1:9465/operator/v1", r.desk, "fbo_…", r.token).Replace(b.text)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var cmd *exec.Cmd
	switch b.language {
	case "sh":
		cmd = exec.CommandContext(ctx, "bash", "-c", prelude+text)
	case "python":
		interpreter := absolute(r.t, "bench/clients/python/.venv/bin/python")
		if _, err := os.Stat(interpreter); err != nil {
			servers.Missing(r.t, interpreter)
		}
		cmd = exec.CommandContext(ctx, interpreter, "-c", text)
	case "js":
		if _, err := os.Stat(absolute(r.t, "bench/clients/node/node_modules/openai")); err != nil {
			servers.Missing(r.t, "openai of npm")
		}
		file := filepath.Join(r.dir, "block.mjs")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		cmd = exec.CommandContext(ctx, "node", file)
	case "yaml":
		file := filepath.Join(r.dir, "block.yaml")
		if err := os.WriteFile(file, []byte(completed(text)), 0o600); err != nil {
			return "", err
		}
		cmd = exec.CommandContext(ctx, r.farebox, "check", "-c", file)
	case "", "text":
		return "it is text", nil
	default:
		return "", fmt.Errorf("a block of %q needs a comment \"not run: reason\" before it", b.language)
	}
	cmd.Dir, cmd.WaitDelay = r.dir, 5*time.Second
	key := r.key
	if strings.HasPrefix(b.note, "run with ADMIN") {
		key = r.admin
	}
	cmd.Env = append(slices.Clone(r.environment), "KEY="+key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return "", nil
}

// completed is a part of a config with the other required members.
func completed(text string) string {
	text = regexp.MustCompile(`\$\{[A-Z_]+\}`).ReplaceAllString(text, "sk-test-of-the-pages")
	if !regexp.MustCompile(`(?m)^upstreams:`).MatchString(text) {
		text += "upstreams:\n  - { name: openai, base_url: https://api.openai.com/v1, key: sk-test }\n"
	}
	if !regexp.MustCompile(`(?m)^models:`).MatchString(text) {
		text += "models:\n  - { id: m, context_tokens: 8192, price: free, targets: [{ upstream: openai }] }\n"
	}
	return text
}

// pages are those that people read, with links below the folder that they are in.
var pages = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "routes/README.md", "routes/DIFFERENCES.md", "routes/clients.md",
	"routes/operator/README.md", "billing/README.md", "providers/README.md", "bench/README.md", "config/README.md", "config/REFERENCE.md", "config/deploy/README.md"}

// operatorsConfig is the farebox.yaml of pages for operators. Its store is the demonstration's.
const operatorsConfig = `
store: ./farebox-data
upstreams:
  - { name: openai, base_url: https://api.openai.com/v1, key: sk-test }
models:
  - { id: m, context_tokens: 8192, price: free, targets: [{ upstream: openai }] }
`

var (
	link   = regexp.MustCompile(`\]\(([^)]+)\)|(?:src|srcset|href)="([^"]+)"`)
	anchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// named is a path below a room, as pages quote it.
var named = regexp.MustCompile("`((?:proxy|routes|providers|billing|config|bench|tests)/[\\w/.-]+)`")

// Files and folders that ARCHITECTURE.md names exist.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := named.FindAllStringSubmatch(string(text), -1)
	if len(paths) < 40 {
		t.Errorf("only %d paths were found", len(paths))
	}
	for _, m := range paths {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
}

// Links of pages lead to files and headings that exist.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	headings := map[string]map[string]bool{}
	of := func(page string) map[string]bool {
		if headings[page] == nil {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Error(err)
			}
			headings[page] = map[string]bool{}
			for _, line := range strings.Split(string(text), "\n") {
				if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
					headings[page][strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
				}
			}
		}
		return headings[page]
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") {
				continue
			}
			file, heading, _ := strings.Cut(target, "#")
			if file == "" {
				file = page
			} else {
				file = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, target)
			} else if heading != "" && !of(file)[heading] {
				t.Errorf("%s: %s has no heading #%s", page, file, heading)
			}
		}
	}
}

// README is read on one screen after the other, in a terminal, too.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) > 200 {
		t.Errorf("README.md has %d lines, at most 200 are read", len(lines))
	}
	for i, line := range lines {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("README.md:%d has %d columns, more than 120", i+1, n)
		}
	}
}

// Blocks that a reader copies from a page work unchanged.
func TestBlocksOfPagesWork(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		if page == "routes/clients.md" {
			continue // tests/clients runs it with the agents
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			list := blocks(t, page)
			if len(list) == 0 {
				return
			}
			r := newReader(t)
			ran := 0
			for _, b := range list {
				if page == "config/README.md" && b.language == "yaml" {
					continue // package config checks them
				}
				why, err := r.run(&b)
				switch {
				case err != nil:
					t.Errorf("%s:%d: %v", page, b.line, err)
				case why != "":
					t.Logf("%s:%d is not run: %s", page, b.line, why)
				default:
					ran++
				}
			}
			t.Logf("%s: %d of %d blocks were run", page, ran, len(list))
		})
	}
}
