package signin

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// judged is how many headers others are asked about.
const judged = 5_000

// verdict is the verdict of siwe, viem, ethers, tweetnacl and @x402/extensions about a header.
type verdict struct {
	Header  string
	Signer  string
	Nonce   string
	Odd     string // why it is refused here alone
	Refused string
}

// "Two parsers, two wallets": the packages that clients sign with accept every header
// accepted here, of the same wallet with the same nonce; headers that only they accept
// are refused here for known reasons alone.
func TestLongSignInsAreJudgedAsByOthers(t *testing.T) {
	r, judged := rules(), servers.Campaign(judged)
	taken, refused, stricter := 0, 0, 0
	for _, v := range othersVerdicts(t, judged) {
		s, no := r.Read([]byte(v.Header), at)
		body, _ := base64.StdEncoding.DecodeString(v.Header)
		switch {
		case no == nil && v.Refused != "":
			t.Errorf("%s is taken here; others: %s\n%q", s.Wallet, v.Refused, body)
		case no == nil && (s.Wallet.String() != v.Signer || s.Nonce != v.Nonce || s.Unproven):
			t.Errorf("%s with nonce %s is %s with nonce %s to others\n%q", s.Wallet, s.Nonce, v.Signer, v.Nonce, body)
		case no == nil:
			taken++
		case v.Refused == "" && v.Odd == "":
			t.Errorf("others accept a header that is refused here: %s %s\n%q", no.Code, no.Message, body)
		case v.Refused == "":
			stricter++
		default:
			refused++
		}
	}
	t.Logf("%d taken, %d refused, %d refused here alone", taken, refused, stricter)
	if taken < judged/5 || refused < judged/5 || stricter > judged/20 {
		t.Error("the headers show too little")
	}
}

func othersVerdicts(t *testing.T, n int) []verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "signins.mjs", strconv.Itoa(n))
	cmd.Dir = filepath.Join("..", "..", "..", "bench", "clients", "node")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start Node: %v; run make setup-long", err)
	}
	var list []verdict
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("Node wrote %q: %v", lines.Text(), err)
		}
		list = append(list, v)
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil || len(list) != n {
		t.Fatalf("Node judged %d of %d headers: %v, %v; run make setup-long\n%s", len(list), n, err, lines.Err(), &complaint)
	}
	return list
}
