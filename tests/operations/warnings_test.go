package operations

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "The warning was printed once, on a terminal that nobody read." A server logs each
// warning of its config when it starts, and new ones when the config changes.
func TestServerLogsWarningsOfItsConfigOnce(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	const secret = "sk-hunter2-of-the-operator"
	text := fmt.Sprintf("upstreams: [{ name: up, base_url: %q, key: %s }]\nmodels:\n  - { id: chat, context_tokens: 8192, "+
		"price: { input: 15, output: 1 }, targets: [{ upstream: up }] }\n", sim.URL, secret)
	g := rig.StartGateway(t, text)
	const first, second = "other way round", "more than any model costs"
	if n := strings.Count(g.Log(), first); n != 1 || strings.Contains(g.Log(), second) {
		t.Errorf("the warning is logged %d times:\n%s", n, g.Log())
	}
	if !strings.Contains(g.Banner(), "in the config") || !strings.Contains(g.Banner(), "check -c ") {
		t.Errorf("the banner does not name the warnings:\n%s", g.Banner())
	}
	place := regexp.MustCompile(`/farebox\.yaml:\d+:\d+$`)
	for line := range strings.Lines(g.Log()) {
		var entry struct{ Level, Place, Key, Message string }
		if strings.Contains(line, first) && (json.Unmarshal([]byte(line), &entry) != nil || entry.Level != "warn" ||
			!place.MatchString(entry.Place) || entry.Key != "models[0].price.output") {
			t.Errorf("the warning is logged as %s", line)
		}
	}
	g.WriteConfig(strings.Replace(text, "input: 15, output: 1 ", "input: 15, output: 1001 ", 1))
	g.Signal(syscall.SIGHUP)
	g.AwaitLog(second)
	g.Signal(syscall.SIGHUP)
	rig.Await(t, "the config is read again", func() bool { return strings.Count(g.Log(), "is in effect") >= 2 })
	if n, m := strings.Count(g.Log(), first), strings.Count(g.Log(), second); n != 1 || m != 1 {
		t.Errorf("the warnings are logged %d and %d times:\n%s", n, m, g.Log())
	}
	if strings.Contains(g.Log()+g.Banner(), secret) {
		t.Error("the key is in the log")
	}
}

// "I gave it LiteLLM's file, and it listed forty mistakes." check and serve name its
// format and the command that converts it.
func TestFileOfAnotherGatewayIsOneMistake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "environment_variables: { A: b }\nmodel_list:\n" + strings.Repeat("  - { model_name: m, litellm_params: { model: openai/gpt-4o, "+
		"api_key: sk-hunter2hunter2 } }\n", 300) + "litellm_settings: { num_retries: 3 }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "serve", "verify"} {
		out, err := rig.RunIn(t, dir, command, "-c", file)
		if rig.ExitCode(err) != 1 || strings.Count(out, "config.yaml:") != 1 || !strings.Contains(out, "config.yaml:2:1: this is a "+
			"config of LiteLLM; farebox import litellm FILE writes one of farebox's") || strings.Contains(out, "hunter2") {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

// A mistake does not hide the warnings of the same run.
func TestWarningsAreShownBesideMistakes(t *testing.T) {
	t.Parallel()
	out, err := checkText(t, strings.NewReplacer("output: 4.00", "output: 0.50", listenLine, "lisen: :8080\n").Replace(plainConfig))
	if rig.ExitCode(err) != 1 || !strings.Contains(out, "has 1 mistake") || !strings.Contains(out, "warning: models[0].price.output") {
		t.Errorf("%v: %s", err, out)
	}
}

// "The key was in a file that every user of the machine could read."
func TestCheckWarnsOfSecretsThatOthersCanRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "farebox.yaml")
	check := func(mode os.FileMode, old, new string) string {
		t.Helper()
		text := strings.Replace(plainConfig, old, new, 1)
		text = strings.Replace(text, "${FAREBOX_TEST_KEY}", "${FAREBOX_TEST_KEY:-}", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		out, err := rig.RunIn(t, dir, "check", "-c", file)
		if err != nil || strings.Contains(out, "hunter2") {
			t.Errorf("%v: %s", err, out)
		}
		return out
	}
	literal := "    key: sk-hunter2-1234567\n"
	if out := check(0o644, keyLine, literal); !strings.Contains(out, "farebox.yaml:7:10: warning: ") || !strings.Contains(out, "0644") ||
		!strings.Contains(out, "chmod 600") {
		t.Errorf("a key in a world-readable file: %s", out)
	}
	if out := check(0o644, storeLine, "store: postgres://u:hunter2@10.0.0.1/f\n"); !strings.Contains(out, ":2:8: warning: store") {
		t.Errorf("a password in a world-readable file: %s", out)
	}
	for name, out := range map[string]string{
		"a file for its owner": check(0o600, keyLine, literal),
		"a reference":          check(0o644, "", ""),
		"an address of a node": check(0o644, upstreams, "rpc: { networks: [{ name: base-mainnet, upstreams: [{ name: a, url: "+
			"\"https://node.example.com/v2\" }] }] }\n"+upstreams),
	} {
		if strings.Contains(out, "warning") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// "Every client failed at midnight, and the check of the config was green."
func TestCheckWarnsOfACertificateThatHasEnded(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for ends, want := range map[time.Duration]bool{-48 * time.Hour: true, 48 * time.Hour: false} {
		dir := t.TempDir()
		about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-96 * time.Hour), NotAfter: time.Now().Add(ends)}
		cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
			"key.pem": {Type: "EC PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := checkText(t, fmt.Sprintf("tls: { cert: %s/cert.pem, key: %s/key.pem }\n", dir, dir)+plainConfig)
		if err != nil || strings.Contains(out, "farebox.yaml:1:14: warning: tls.cert: the certificate ended on ") != want {
			t.Errorf("it ends in %s: %v: %s", ends, err, out)
		}
	}
}

// A container that starts in / kept its ledger where nothing was mounted.
func TestCheckWarnsOfAStoreBelowTheRoot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "farebox.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(strings.Replace(plainConfig, storeLine, "store: data\n", 1), keyLine, "", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := rig.RunIn(t, "/", "check", "-c", file); err != nil || !strings.Contains(out, ":2:8: warning: store: ") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := rig.RunIn(t, filepath.Dir(file), "check", "-c", file); err != nil || strings.Contains(out, "warning") {
		t.Errorf("elsewhere: %v: %s", err, out)
	}
}

// "I pasted the key of the wallet in place of its address, and the log had it."
func TestPrivateKeysAreNeverShown(t *testing.T) {
	t.Parallel()
	const evm = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	const solana = "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw9VZ8gCPPuDgNDqPNEvDYPVVF2kPqC6iLWXCFWzWdkqhBR"
	const words = "test test test test test test test test test test test junk"
	wallets := func(payTo, allow, name string) string {
		return plainConfig + fmt.Sprintf("rpc: { networks: [{ name: base-mainnet, upstreams: [{ name: away, url: \"http://127.0.0.1:1\" "+
			"}] }] }\nx402:\n  sign_in: { domains: [shop.test] }\n  allow: [%s]\n  networks: [{ network: base, rpc: base-mainnet, "+
			"pay_to: %s }]\n  facilitators: [{ name: %s, url: \"http://127.0.0.1:1\" }]\n", allow, payTo, name)
	}
	const good = `"0x2670B922ef37C7Df47158725C0CC407b5382293F"`
	if out, err := checkText(t, wallets(good, "", "away")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{
		"pay_to":              wallets(`"0x`+evm+`"`, "", "away"),
		"pay_to, not quoted":  wallets("0x"+evm, "", "away"),
		"pay_to without 0x":   wallets(`"`+evm+`"`, "", "away"),
		"pay_to of Solana":    wallets(`"`+solana+`"`, "", "away"),
		"pay_to as words":     wallets(`"`+words+`"`, "", "away"),
		"pay_to as numbers":   wallets("["+strings.Repeat("172, 9, 116, ", 21)+"190]", "", "away"),
		"allow":               wallets(good, `"0x`+evm+`"`, "away"),
		"a key as a name":     wallets(good, "", `"0x`+evm+`"`),
		"a key of a vendor":   strings.Replace(plainConfig, "name: main", "name: sk-proj-hunter2hunter2/x", 1),
		"a key as the store":  strings.Replace(plainConfig, storeLine, "stroe: sk-proj-hunter2hunter2\n", 1),
		"a key of the ledger": strings.Replace(plainConfig, canLine, canLine+"    description: 0x"+evm+"\n", 1),
	} {
		out, err := checkText(t, text)
		if rig.ExitCode(err) != 1 {
			t.Errorf("%s is taken: %s", name, out)
		}
		for _, secret := range []string{evm[:16], solana[:16], "test test", "172, 9", "hunter2"} {
			if strings.Contains(out, secret) {
				t.Errorf("%s: the secret is shown:\n%s", name, out)
			}
		}
		if strings.HasPrefix(name, "pay_to") && name != "pay_to as numbers" && !strings.Contains(out, "this is a private key") {
			t.Errorf("%s: %s", name, out)
		}
	}
	// The log of a reload says the same.
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, "")+paidByWallets)
	g.WriteConfig(fmt.Sprintf(rig.LoneConfig, sim.URL, "") + strings.Replace(paidByWallets,
		"0x2670B922ef37C7Df47158725C0CC407b5382293F", "0x"+evm, 1))
	g.AwaitLog("this is a private key")
	if strings.Contains(g.Log(), evm[:16]) {
		t.Error("the log has the private key")
	}
}

// "My script died at the first empty list: it was null."
func TestJSONOfNothingIsAnEmptyList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := rig.RunIn(t, dir, "account", "create", "--name", "a", "--store", "s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range []string{"key list", "job list", "usage", "statement a", "wallet list", "wallet payments",
		"character review list", "account list"} {
		out, err := rig.RunIn(t, dir, append(strings.Fields(line), "--store", "s", "--json")...)
		var list []any
		if err != nil || json.Unmarshal([]byte(out), &list) != nil || list == nil || line != "account list" && len(list) > 0 {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}

// "The alarms were silent: another process had the port of the metrics." A taken port is
// shown in the banner and as a warning, and one that was chosen ends the start.
func TestTakenPortOfMetricsIsReported(t *testing.T) {
	t.Parallel()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ln, err := net.Listen("tcp", "127.0.0.1:9464")
		if err == nil {
			defer ln.Close()
			break
		}
		if time.Now().After(end) {
			break // another process keeps it, which is as good
		}
	}
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, ""))
	if !strings.Contains(g.Banner(), "127.0.0.1:9464 is taken") {
		t.Errorf("the banner is\n%s", g.Banner())
	}
	rig.Await(t, "the log warns", func() bool {
		for line := range strings.Lines(g.Log()) {
			if strings.Contains(line, "usual address of /metrics is taken") && strings.Contains(line, `"level":"warn"`) {
				return true
			}
		}
		return false
	})
}
