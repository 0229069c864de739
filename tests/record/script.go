package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// customer is an account of a gateway with its keys.
type customer struct {
	id, account   string
	admin, worker string // secrets
	adminID       string
	workerID      string
}

func (l *lab) customer(name, usd string) *customer {
	c := &customer{account: name, id: l.account(name, usd)}
	c.adminID, c.admin = l.key(name, "--type", "ADMIN", "--description", "boss of "+name)
	c.workerID, c.worker = l.key(name, "--description", "worker of "+name)
	return c
}

const noRest = "{ failures: 0 }"

// play does everything.
func (l *lab) play() error {
	l.commands()
	for _, phase := range []struct {
		name, config string
		play         func() error
	}{
		{"plain", l.configOf("plain", "", noRest), l.playPlain},
		{"compat", l.configOf("compat", "", noRest), l.playCompat},
		{"limits", l.configOf("limits", "M", "{ failures: 2, open_for: 1h }"), l.playLimits},
	} {
		if err := l.begin(phase.name, phase.config); err != nil {
			return fmt.Errorf("cannot start farebox for %s: %w", phase.name, err)
		}
		if err := phase.play(); err != nil {
			return err
		}
		l.books()
	}
	return nil
}

// commands are those that need no gateway: the help of every command, and the check of
// the examples.
func (l *lab) commands() {
	l.phase = "commands"
	l.help()
	l.run(nil, "version")
	l.run(nil, "nonsense")
	l.run(nil, "account", "nonsense")
	l.run(nil, "serve", "--nonsense")
	examples, _ := filepath.Glob("../config/examples/*.yaml")
	sort.Strings(examples)
	for _, name := range examples {
		l.run(nil, "check", "-c", name)
	}
	for i, text := range badConfigs(l) {
		name := filepath.Join(l.dir, fmt.Sprintf("bad-%02d.yaml", i))
		if os.WriteFile(name, []byte(text), 0o600) == nil {
			l.run(nil, "check", "-c", name)
		}
	}
}

// badConfigs have each key of the full example with a value that it cannot have.
func badConfigs(l *lab) (out []string) {
	full, err := os.ReadFile("../config/examples/full.yaml")
	if err != nil {
		return nil
	}
	lines := strings.Split(string(full), "\n")
	// Ten keys in one file: the messages name their lines.
	for at := 0; at < len(lines); {
		changed, n := append([]string(nil), lines...), 0
		for ; at < len(lines) && n < 10; at++ {
			key, value, ok := strings.Cut(lines[at], ":")
			value, comment, _ := strings.Cut(value, " #")
			value = strings.TrimSpace(value)
			if !ok || strings.HasPrefix(strings.TrimSpace(key), "#") || value == "" ||
				strings.ContainsAny(value, "{[&*") {
				continue
			}
			n++
			changed[at] = key + ": " + []string{"-1", "no such word", "[1]", "1e40"}[(at+n)%4] + " #" + comment
		}
		out = append(out, strings.Join(changed, "\n"))
	}
	return append(out, "", "a", "models: []", "upstreams: []\nmodels: []\nx: 1", "listen: [",
		l.configOf("plain", "", "{ failures: x }"))
}

// help asks every command for its help.
func (l *lab) help(path ...string) {
	text := l.run(nil, append(path[:len(path):len(path)], "--help")...)
	_, list, ok := strings.Cut(text, "Available Commands:\n")
	if !ok {
		return
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "help" {
			l.help(append(path[:len(path):len(path)], f[0])...)
		}
	}
}

// books are the ledger at the end: the output of the commands beside the server and
// without it, and all stored rows.
func (l *lab) books() {
	l.settled()
	l.cli("account", "list", "--json")
	l.cli("key", "list", "--json")
	l.cli("usage", "--by", "model")
	l.cli("verify")
	l.stop()
	e := &entry{Name: l.phase + ": the log of the end"}
	for _, line := range l.log.lines()[l.told:] {
		e.add("log", []byte(line+"\n"))
	}
	l.rec.Entries = append(l.rec.Entries, e)
	l.cli("account", "list")
	l.cli("key", "list")
	for _, by := range []string{"account", "model", "key", "day"} {
		l.cli("usage", "--by", by)
		l.cli("usage", "--by", by, "--json")
	}
	l.cli("usage", "--by", "model", "--csv")
	l.cli("verify")
	l.cli("verify", "--json")
	file := filepath.Join(l.dir, l.phase+".backup")
	l.cli("backup", file)
	e = &entry{Name: l.phase + ": dump"}
	dump, err := dumpOf(file)
	if err != nil {
		dump = err.Error()
	}
	e.add("dump", []byte(dump))
	l.rec.Entries = append(l.rec.Entries, e)
	l.run(nil, "restore", file, "--store", filepath.Join(l.dir, l.phase+"-restored"))
	l.run(nil, "verify", "--store", filepath.Join(l.dir, l.phase+"-restored"))
	l.cli("migrate")
}

// playPlain is most of it.
func (l *lab) playPlain() error {
	c := l.customer("rich", "1000000")
	l.cli("account", "credit", "rich", "0.00031", "--currency", "DIEM")
	l.cli("account", "credit", "rich", "0.00017", "--currency", "BUNDLED_CREDITS")
	poor := l.customer("poor", "")
	l.edges(c)
	l.catalog(c)
	l.chats(c)
	l.chatRules(c)
	l.moreChats(c, false)
	l.keyed(c)
	l.embeddings(c)
	l.pictures(c)
	l.pictureRules(c)
	l.rpc(c)
	l.rpcFaults(c)
	l.apiKeys(c)
	l.web3()
	l.empty(poor)
	l.operator(c)
	l.billing(c)
	return nil
}

// playCompat plays requests whose answers the switches change.
func (l *lab) playCompat() error {
	c := l.customer("rich", "1000000")
	poor := l.customer("poor", "")
	l.edges(c)
	l.catalog(c)
	l.compatChats(c)
	l.chatRules(c)
	l.moreChats(c, true)
	l.keyed(c)
	l.embeddings(c)
	l.rpc(c)
	l.apiKeys(c)
	l.web3()
	l.empty(poor)
	l.diem()
	l.billing(c)
	return nil
}

// playLimits meets each limit.
func (l *lab) playLimits() error {
	chat := func(c *customer, name, model, text, more string) {
		l.chat(name, c.worker, model, text, more)
	}
	a := l.customer("minute", "10")
	for i := range 6 {
		chat(a, fmt.Sprint("requests a minute ", i), "chat-openai", "hello", "")
		l.get("the limits of a key", "/api_keys/rate_limits", a.worker)
	}
	for i := range 4 {
		chat(a, fmt.Sprint("requests a day ", i), "chat-daily", "hello", "")
	}
	for i := range 4 {
		l.post(fmt.Sprint("embeddings a minute ", i), "/embeddings", a.worker,
			`{"model":"embed-1","input":"a","dimensions":4}`)
	}
	for i := range 3 {
		l.post(fmt.Sprint("pictures a minute ", i), "/image/generate", a.worker,
			`{"model":"openai-paint","prompt":"x","width":64,"height":64,"num_images":2}`)
	}
	for i := range 8 {
		l.post(fmt.Sprint("calls an hour ", i), "/crypto/rpc/ethereum-mainnet", a.worker,
			`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_gasPrice"}]`)
	}
	f := l.customer("failing", "10")
	for i := range 6 {
		chat(f, fmt.Sprint("failures ", i), "no-such-model", "hello", "")
	}
	u := l.customer("unsupported", "10")
	for i := range 5 {
		chat(u, fmt.Sprint("unsupported features ", i), "chat-plain", "hello",
			`,"tools":[{"type":"function","function":{"name":"f"}}]`)
	}
	p := l.customer("below", "0.09")
	chat(p, "below the least balance", "chat-openai", "hello", "")
	chat(p, "free below the least balance", "chat-free", "hello", "")
	s := l.customer("suspended", "1")
	l.cli("account", "suspend", "suspended")
	chat(s, "suspended", "chat-free", "hello", "")
	l.cli("account", "resume", "suspended")
	chat(s, "resumed", "chat-free", "hello", "")
	l.cli("account", "close", "suspended")
	chat(s, "closed", "chat-free", "hello", "")

	for i := range 8 {
		l.get(fmt.Sprint("wrong keys ", i), "/models", fmt.Sprint("SVC_INFERENCE_KEY_", i))
	}
	l.get("a key that is in use, from there", "/api_keys/rate_limits", p.worker)
	l.post("wallets may not", "/api_keys/generate_web3_key", "", `{}`)
	for i := range 5 {
		l.get(fmt.Sprint("wallets' tries a minute ", i), "/api_keys/generate_web3_key", "")
	}
	// Targets that rest: failures of two accounts keep them out for an hour.
	one, two := l.customer("one", "10"), l.customer("two", "10")
	for i := range 3 {
		for _, c := range []*customer{one, two} {
			l.post(fmt.Sprint("nodes that fail ", i), "/crypto/rpc/solana-mainnet", c.worker,
				`{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[1`)
			chat(c, fmt.Sprint("targets that fail ", i), "chat-closed", "hello", "")
			chat(c, fmt.Sprint("a lone target that fails ", i), "chat-nowhere", "hello", "")
		}
	}
	l.get("the log of limits", "/api_keys/rate_limits/log", a.admin)
	l.get("the log of limits of another", "/api_keys/rate_limits/log", f.admin)
	l.billing(a)
	return nil
}

// wallet is an EVM wallet that is the same in every recording.
func wallet() (key *secp256k1.PrivateKey, address string) {
	key = secp256k1.PrivKeyFromBytes([]byte("a wallet that is always the same"))
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(key.PubKey().SerializeUncompressed()[1:])
	return key, "0x" + hex.EncodeToString(h.Sum(nil)[12:])
}

// web3 are keys that wallets make for themselves.
func (l *lab) web3() {
	const path = "/api_keys/generate_web3_key"
	key, address := wallet()
	fresh := func() string {
		a := l.get("a token for a wallet", path, "")
		var t struct{ Data struct{ Token string } }
		_ = json.Unmarshal(a.body, &t)
		return t.Data.Token
	}
	sign := func(text string) string {
		h := sha3.NewLegacyKeccak256()
		_, _ = h.Write([]byte("\x19Ethereum Signed Message:\n" + strconv.Itoa(len(text)) + text))
		compact := ecdsa.SignCompact(key, h.Sum(nil), false)
		return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
	}
	body := func(address, signature, token, more string) string {
		return fmt.Sprintf(`{"apiKeyType":"INFERENCE","address":"%s","signature":"%s","token":"%s"%s}`, address,
			signature, token, more)
	}
	token := fresh()
	post := func(name, body string) *answer { return l.post("wallet: "+name, path, "", body) }
	post("made", body(address, sign(token), token, ""))
	post("a used token", body(address, sign(token), token, ""))
	token = fresh()
	post("another's signature", body("0x"+strings.Repeat("1", 40), sign(token), token, ""))
	post("no signature", body(address, "0x", token, ""))
	post("no token", body(address, sign("x"), "x", ""))
	post("a wrong address", body("0x12", sign(token), token, ""))
	post("a member too many", body(address, sign(token), token, `,"x":1`))
	a := post("with everything", body(address, sign(token), token,
		`,"description":"mine","consumptionLimit":{"usd":5,"diem":1},"limitPeriod":"MONTH","expiresAt":"2091-01-01","modelPrivacy":"PRIVATE_ONLY"`))
	var made struct {
		Data struct {
			APIKey string `json:"apiKey"`
		}
	}
	_ = json.Unmarshal(a.body, &made)
	l.chat("wallet: an empty account", made.Data.APIKey, "chat-openai", "hello", "")
}
