package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// documentTools are what people do with an OpenAPI document, in bench/clients/openapi.
type documentTools struct {
	t   *testing.T
	g   *publicGateway
	dir string // holds openapi.json and what is made of it
}

func newDocumentTools(t *testing.T) *documentTools {
	t.Helper()
	d := &documentTools{t: t, g: startDemonstration(t), dir: t.TempDir()}
	_, _, document := d.g.Get("/openapi.json", "")
	d.write("openapi.json", string(document))
	return d
}

func (d *documentTools) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *documentTools) copy(name string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join("bench", "clients", "openapi", name))
	if err != nil {
		d.t.Fatal(err)
	}
	d.write(name, string(text))
}

// tool is the path of an installed one.
func (d *documentTools) tool(path ...string) string {
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

// run runs a command and gives what it says.
func (d *documentTools) run(command string, arguments ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, arguments...)
	cmd.Dir, cmd.WaitDelay = d.dir, 5*time.Second
	cmd.Env = append(os.Environ(), "FAREBOX_URL="+d.g.URL, "FAREBOX_KEY="+d.g.Key("rich", "--type", "ADMIN"), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Errorf("%s %v: %v\n%s", command, arguments, err, out[max(0, len(out)-8000):])
	}
	return string(out)
}

// A validator takes the document, and clients that are made of it get answers.
func TestLongClientsAreMadeOfTheDocument(t *testing.T) {
	d := newDocumentTools(t)
	d.run(d.tool(".venv", "bin", "openapi-spec-validator"), "openapi.json")

	d.write("python.yaml", "literal_enums: true\n") // Auto and auto are two values
	made := d.run(d.tool(".venv", "bin", "openapi-python-client"), "generate", "--path", "openapi.json", "--output-path", "made",
		"--meta", "none", "--config", "python.yaml")
	if strings.Contains(made, "will not be generated") {
		t.Errorf("some endpoints have no client:\n%s", made)
	}
	d.copy("client.py")
	if said := d.run(d.tool(".venv", "bin", "python"), "client.py", "."); strings.TrimSpace(said) != "assistant completed 404 True" {
		t.Errorf("the client of Python says %q", said)
	}

	if err := os.Symlink(d.tool("node_modules"), filepath.Join(d.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	d.copy("client.ts")
	d.copy("package.json")
	d.run(d.tool("node_modules", ".bin", "openapi-typescript"), "openapi.json", "-o", "api.d.ts")
	d.run(d.tool("node_modules", ".bin", "tsc"), "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--strict",
		"--skipLibCheck", "--allowImportingTsExtensions", "--rewriteRelativeImportExtensions", "--outDir", "js", "client.ts")
	if err := os.Symlink(d.tool("node_modules"), filepath.Join(d.dir, "js", "node_modules")); err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join("js", "package.json"), `{"type":"module"}`)
	if said := d.run("node", "js/client.js"); strings.TrimSpace(said) != `["assistant","sim-chat-small",36,"MODEL_NOT_FOUND",404]` {
		t.Errorf("the client of TypeScript says %q", said)
	}
}

// A fuzzer that knows the document finds no failure of the server, and no answer that the
// document does not describe.
func TestLongAFuzzerFindsNothingBesideTheDocument(t *testing.T) {
	d := newDocumentTools(t)
	text, err := os.ReadFile(d.g.Config)
	if err != nil {
		t.Fatal(err)
	}
	d.g.WriteConfig(strings.Replace(string(text), "\nlimits:\n", "\nlimits:\n  failed_requests: { count: 0 }\n  unsupported_features: { count: 0 }\n"+
		"  aborted_requests: { count: 0 }\n", 1))
	d.run(d.tool(".venv", "bin", "schemathesis"), "run", "openapi.json", "--url", d.g.URL, "-H", "Authorization: Bearer "+d.g.Key("rich", "--type", "ADMIN"),
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
		"--phases", "examples,fuzzing", "--max-examples", "20", "--workers", "2", "--suppress-health-check", "all",
		"--request-timeout", "30", "--seed", "1")
	d.g.Settled()
	d.g.CLI("verify")
	if said := d.g.Log(); strings.Contains(said, "panicked") {
		t.Error("farebox had a panic")
	}
}
