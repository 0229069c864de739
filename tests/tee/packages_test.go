package tee

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sealedClients is where the clients of npm are that chat with enclaves.
const sealedClients = "bench/clients/sealed"

func needPackages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(sealedClients, "node_modules", "veniceai-cli")); err != nil {
		t.Fatalf("the packages are not installed in %s: run make setup-long", sealedClients)
	}
}

// runs starts a program with an environment, and returns its output.
func runs(t *testing.T, environment []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// The command line that customers of such services have, unmodified: it checks an
// attestation by itself, chats sealed over several turns, and checks a signature. Its
// headers have another brand in their names (brand_aliases).
func TestLongThePublishedCommandLine(t *testing.T) {
	t.Parallel()
	needPackages(t)
	s := open(t, "", "").verified()
	s.WriteConfig(strings.Replace(s.config, "brand_aliases: [acme]", "brand_aliases: [venice]", 1))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.verified()
	cli := filepath.Join(sealedClients, "node_modules", "veniceai-cli", "dist", "index.js")
	environment := []string{"VENICE_API_BASE_URL=" + s.URL, "VENICE_API_KEY=" + s.key, "HOME=" + t.TempDir(),
		"NO_UPDATE_NOTIFIER=1"}
	venice := func(args ...string) string {
		t.Helper()
		// It streams, as sealed chats must be, where it believes that a terminal is there.
		out, err := runs(t, environment, append([]string{"node", "--import", "data:text/javascript,process.stdout.isTTY=true",
			cli}, args...)...)
		if err != nil {
			t.Fatalf("venice %q: %v\n%s", args, err, out)
		}
		return out
	}
	if out := venice("tee", "verify", model); !strings.Contains(out, "PASSED") && !strings.Contains(out, "assed") {
		t.Errorf("tee verify says\n%s", out)
	}
	venice("tee", "attestation", model, "--verbose")
	for i, more := range [][]string{{}, {"--continue"}} {
		out := venice(append([]string{"chat", "-m", model, "--e2ee"}, append(more, "tell me "+secret)...)...)
		if !strings.Contains(out, "You said tell me "+secret+".") {
			t.Errorf("the chat says\n%s", out)
		}
		got := s.enclaves[0].Requests()
		last := got[len(got)-1]
		if last.Header.Get("X-Client-Pub-Key") == "" || bytes.Contains(last.Body, []byte(secret)) {
			t.Errorf("it was not sealed: %.300s", last.Body)
		}
		if i == 1 && len(last.Turns) < 2 { // it does not keep the answers of streams
			t.Errorf("the second chat had %d turns", len(last.Turns))
		}
		var answer struct {
			ID string `json:"id"`
		}
		line := strings.TrimPrefix(strings.SplitN(string(last.Answer), "\n", 2)[0], "data: ")
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatal(err)
		}
		out = venice("tee", "signature", model, answer.ID, "--verify-signer", s.attest("").Get("signing_address").Str)
		if strings.Contains(strings.ToLower(out), "mismatch") || strings.Contains(strings.ToLower(out), "fail") {
			t.Errorf("tee signature says\n%s", out)
		}
	}
	if out := venice("chat", "-m", model, "--no-e2ee", "--no-stream", "in the clear"); !strings.Contains(out,
		"You said in the clear.") {
		t.Errorf("the plain chat says\n%s", out)
	}
}

// A second client, of viem and WebCrypto, which believes nothing that it has not checked.
func TestLongAClientOfOurs(t *testing.T) {
	t.Parallel()
	needPackages(t)
	s := open(t, "", "").verified()
	out, err := runs(t, nil, "node", filepath.Join(sealedClients, "sealed.mjs"), s.URL, s.key, model, secret)
	if err != nil || !strings.Contains(out, `"said":"You said `+secret+`."`) {
		t.Errorf("%v\n%s", err, out)
	}
}
