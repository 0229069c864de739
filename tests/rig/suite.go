package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
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

// DocumentTools are the usual tools for an OpenAPI document, in bench/clients/openapi.
type DocumentTools struct {
	Dir string // holds openapi.json and the files made from it
	t   *testing.T
	env []string
}

// NewDocumentTools has a document, and variables for the clients that are made of it.
func NewDocumentTools(t *testing.T, document string, env ...string) *DocumentTools {
	t.Helper()
	d := &DocumentTools{t: t, Dir: t.TempDir(), env: env}
	d.Write("openapi.json", document)
	return d
}

// Write writes a file beside the document.
func (d *DocumentTools) Write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Copy copies a file of the folder of tools.
func (d *DocumentTools) Copy(name string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join("bench", "clients", "openapi", name))
	if err != nil {
		d.t.Fatal(err)
	}
	d.Write(name, string(text))
}

// Tool is the path of an installed one.
func (d *DocumentTools) Tool(path ...string) string {
	d.t.Helper()
	full, err := filepath.Abs(filepath.Join(append([]string{"bench", "clients", "openapi"}, path...)...))
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		servers.Missing(d.t, full)
	}
	return full
}

// Run runs a command and gives its output.
func (d *DocumentTools) Run(command string, arguments ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, arguments...)
	cmd.Dir, cmd.WaitDelay = d.Dir, 5*time.Second
	cmd.Env = append(append(os.Environ(), d.env...), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Errorf("%s %v: %v\n%s", command, arguments, err, out[max(0, len(out)-8000):])
	}
	return string(out)
}

// MakePython makes the package "made" of the document.
func (d *DocumentTools) MakePython() {
	d.t.Helper()
	d.Write("python.yaml", "literal_enums: true\n") // Auto and auto are two values
	made := d.Run(d.Tool(".venv", "bin", "openapi-python-client"), "generate", "--path", "openapi.json", "--output-path", "made",
		"--meta", "none", "--config", "python.yaml")
	if strings.Contains(made, "will not be generated") {
		d.t.Errorf("some endpoints have no client:\n%s", made)
	}
}

// MakeTypeScript makes types of the document, and JavaScript of a program that uses them, in the
// folder js.
func (d *DocumentTools) MakeTypeScript(types, program string) {
	d.t.Helper()
	if err := os.Symlink(d.Tool("node_modules"), filepath.Join(d.Dir, "node_modules")); err != nil {
		d.t.Fatal(err)
	}
	d.Copy("package.json")
	d.Run(d.Tool("node_modules", ".bin", "openapi-typescript"), "openapi.json", "-o", types)
	d.Run(d.Tool("node_modules", ".bin", "tsc"), "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--strict",
		"--skipLibCheck", "--allowImportingTsExtensions", "--rewriteRelativeImportExtensions", "--outDir", "js", program)
	if err := os.Symlink(d.Tool("node_modules"), filepath.Join(d.Dir, "js", "node_modules")); err != nil {
		d.t.Fatal(err)
	}
	d.Write(filepath.Join("js", "package.json"), `{"type":"module"}`)
}
