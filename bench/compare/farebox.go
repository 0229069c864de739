package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"farebox/bench/upstream"
)

// Everything the comparison knows of farebox's command line and config is in this file. All
// that a paying customer gets is on: authentication, limits (of the tier without any),
// hold, meter, settlement, journal. No limit refuses the bench's key at any load.
const (
	fareboxHead = `listen: %s
store: %s
log: { level: warn }
server: { max_body: 64MB }
limits:
  failed_requests: { count: 0 }
  unsupported_features: { count: 0 }
  aborted_requests: { count: 0 }
upstreams:
  - name: simulated
    base_url: http://%s/v1
    max_connections: 20000
    max_idle: 60s
rpc:
  rate: { rpm: 0 }
  networks:
    - name: ethereum-mainnet
      upstreams: [{ name: simulated, url: "http://%s%s", max_connections: 20000, max_idle: 60s }]
models:
`
	fareboxModel = `  - id: %s
    tier: unlimited
    context_tokens: 4000000
    max_completion_tokens: 2000000
    price: { input: 0.10, output: 0.40 }
    targets: [{ upstream: simulated }]%s
`
	// Answers of other models are read to their end after their client left.
	fareboxAborts   = "\n    hold: slice"
	fareboxPictures = `  - id: ` + upstream.BenchImageModel + `
    type: image
    tier: unlimited
    price: { generation: 0.01 }
    targets: [{ upstream: simulated, options: { sizes: "1024x1024" } }]
  - id: ` + upstream.BenchImageModel + `-edit
    type: inpaint
    tier: unlimited
    price: { inpaint: 0.01 }
    targets: [{ upstream: simulated, model: ` + upstream.BenchImageModel + ` }]
`
	fareboxSpeech = `  - id: %s
    type: tts
    tier: unlimited
    voices: [alloy]
    price: { input: 15.00 }
    targets: [{ upstream: simulated }]
`
	fareboxPath   = "/api/v1"
	fareboxRPC    = "/crypto/rpc/ethereum-mainnet"
	fareboxCredit = "1000000"
	fareboxFile   = "farebox.yaml"
)

func startFarebox(l *lab) (*gateway, error) {
	dir, err := os.MkdirTemp(l.dir, "farebox")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "store")
	text := fmt.Sprintf(fareboxHead, addr, store, l.upstreamAddr, l.upstreamAddr, upstream.BenchRPCPath)
	for _, model := range upstream.BenchModels() {
		hold := ""
		if slices.Contains(abortModels, model) {
			hold = fareboxAborts
		}
		text += fmt.Sprintf(fareboxModel, model, hold)
	}
	text += fareboxPictures
	for _, model := range []string{upstream.BenchSpeechModel, upstream.BenchPacedModel} {
		text += fmt.Sprintf(fareboxSpeech, model)
	}
	if err := os.WriteFile(filepath.Join(dir, fareboxFile), []byte(text), 0o600); err != nil {
		return nil, err
	}
	g := &gateway{name: contender, url: "http://" + addr + fareboxPath, dir: dir}
	if err := g.serve(l); err != nil {
		return nil, err
	}
	if err := g.processes[0].ready(addr); err != nil {
		return g, err
	}
	g.key, err = fareboxKey(l.exe, dir, store)
	return g, err
}

// serve starts farebox with the config and the store that it had.
func (g *gateway) serve(l *lab) error {
	p, err := spawn("farebox", g.dir, l.gatewayCPU, []string{"GOMAXPROCS=1"}, l.exe, "serve", "-c", filepath.Join(g.dir, fareboxFile))
	if err != nil {
		return err
	}
	g.processes = []*process{p}
	return nil
}

// fareboxKey makes an account with money and a key, beside the running server.
func fareboxKey(exe, dir, store string) (string, error) {
	const account = "bench"
	for _, argv := range [][]string{
		{"account", "create", "--name", account},
		{"account", "credit", account, fareboxCredit, "--ref", "bench"},
	} {
		if _, err := tool(dir, append([]string{exe}, append(argv, "--store", store)...)...); err != nil {
			return "", err
		}
	}
	out, err := tool(dir, exe, "key", "create", "--account", account, "--type", "INFERENCE", "--json", "--store", store)
	if err != nil {
		return "", err
	}
	var made struct {
		APIKey string `json:"apiKey"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.APIKey == "" {
		return "", fmt.Errorf("cannot read the key that `farebox key create --json` printed: %.200q", out)
	}
	return made.APIKey, nil
}

func fareboxVersion(exe string) string {
	out, err := tool(".", exe, "--version")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
