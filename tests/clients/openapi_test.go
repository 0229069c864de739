package clients

import (
	"os"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// newDocumentTools has the document of a demonstration.
func newDocumentTools(t *testing.T) (*rig.DocumentTools, *publicGateway) {
	t.Helper()
	g := startDemonstration(t)
	_, _, document := g.Get("/openapi.json", "")
	return rig.NewDocumentTools(t, string(document), "FAREBOX_URL="+g.URL, "FAREBOX_KEY="+g.Key("rich", "--type", "ADMIN")), g
}

// A validator takes the document, and clients that are made of it get answers.
func TestLongClientsAreMadeOfTheDocument(t *testing.T) {
	d, _ := newDocumentTools(t)
	d.Run(d.Tool(".venv", "bin", "openapi-spec-validator"), "openapi.json")

	d.MakePython()
	d.Copy("client.py")
	if said := d.Run(d.Tool(".venv", "bin", "python"), "client.py", "."); strings.TrimSpace(said) != "assistant completed 404 True" {
		t.Errorf("the client of Python says %q", said)
	}

	d.Copy("client.ts")
	d.MakeTypeScript("api.d.ts", "client.ts")
	if said := d.Run("node", "js/client.js"); strings.TrimSpace(said) != `["assistant","sim-chat-small",36,"MODEL_NOT_FOUND",404]` {
		t.Errorf("the client of TypeScript says %q", said)
	}
}

// A fuzzer that knows the document finds no failure of the server, and no answer that the
// document does not describe.
func TestLongAFuzzerFindsNothingBesideTheDocument(t *testing.T) {
	d, g := newDocumentTools(t)
	text, err := os.ReadFile(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	g.WriteConfig(strings.Replace(string(text), "\nlimits:\n", "\nlimits:\n  failed_requests: { count: 0 }\n  unsupported_features: { count: 0 }\n"+
		"  aborted_requests: { count: 0 }\n", 1))
	d.Run(d.Tool(".venv", "bin", "schemathesis"), "run", "openapi.json", "--url", g.URL, "-H", "Authorization: Bearer "+g.Key("rich", "--type", "ADMIN"),
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
		"--phases", "examples,fuzzing", "--max-examples", "20", "--workers", "2", "--suppress-health-check", "all",
		"--request-timeout", "30", "--seed", "1")
	g.Settled()
	g.CLI("verify")
	if said := g.Log(); strings.Contains(said, "panicked") {
		t.Error("farebox had a panic")
	}
}
