package overspend

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// CommandBooks are books kept by commands of the gateway's operator.
type CommandBooks struct {
	// Account is a shell command that makes an account named $CELL with $AMOUNT
	// USD, and with a key limit of $LIMIT USD where that is not empty, and
	// prints a key as its last word. Empty: Key is used for all cells.
	Account string
	Key     string
	// Balance is a shell command, or an address that is read with the key. It gives the
	// balance of account $CELL (key $KEY) in USD, and its debt as a second number; of JSON,
	// balances.usd or usd and debt. Empty: unknown.
	Balance string
	Amount  int64
	Limit   int64

	mu   sync.Mutex
	keys map[string]string
}

// Open runs Account.
func (b *CommandBooks) Open(ctx context.Context, cell string) (string, error) {
	key := b.Key
	if b.Account != "" {
		out, err := b.run(ctx, b.Account, cell)
		if err != nil {
			return "", err
		}
		words := strings.Fields(out)
		if len(words) == 0 {
			return "", fmt.Errorf("the command %q printed no key", b.Account)
		}
		key = words[len(words)-1]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[string]string{}
	}
	b.keys[cell] = key
	return key, nil
}

// Read runs or asks Balance.
func (b *CommandBooks) Read(ctx context.Context, cell string) (f Funds, err error) {
	var text string
	switch {
	case b.Balance == "":
		return Funds{}, nil
	case strings.HasPrefix(b.Balance, "http://"), strings.HasPrefix(b.Balance, "https://"):
		text, err = b.get(ctx, cell)
	default:
		text, err = b.run(ctx, b.Balance, cell)
	}
	if err != nil {
		return Funds{}, err
	}
	words := strings.Fields(text)
	if j := gjson.Parse(text); j.IsObject() {
		words = nil
		for _, path := range []string{"balances.usd", "usd", "balance"} {
			if v := j.Get(path); v.Exists() {
				words = []string{v.String()}
				break
			}
		}
		if v := j.Get("debt"); v.Exists() && len(words) > 0 {
			words = append(words, v.String())
		}
	}
	if len(words) == 0 {
		return Funds{}, nil
	}
	f.Known, f.Key = true, -1
	if f.Left, err = Nano(words[0]); err == nil && len(words) > 1 {
		f.Debt, err = Nano(words[1])
	}
	if f.Left < 0 && f.Debt == 0 {
		f.Left, f.Debt = 0, -f.Left // a balance below zero is a debt
	}
	return f, err
}

func (b *CommandBooks) run(ctx context.Context, command, cell string) (string, error) {
	b.mu.Lock()
	key := b.keys[cell]
	b.mu.Unlock()
	limit := ""
	if b.Limit > 0 {
		limit = USD(b.Limit)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), "CELL="+cell, "AMOUNT="+USD(b.Amount), "LIMIT="+limit, "KEY="+key)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the command %q failed: %w: %s", command, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

const readMost = 1 << 20 // of an answer

func (b *CommandBooks) get(ctx context.Context, cell string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Balance, nil)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	if key := b.keys[cell]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	b.mu.Unlock()
	client := http.Client{Timeout: 10 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, readMost))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d: %.200s", b.Balance, res.StatusCode, text)
	}
	return string(text), err
}

// Nano reads a decimal of USD.
func Nano(text string) (int64, error) {
	abs, negative := strings.CutPrefix(text, "-")
	whole, part, _ := strings.Cut(abs, ".")
	if len(part) > 9 {
		part = part[:9]
	}
	w, err := strconv.ParseInt(whole, 10, 34)
	if err != nil {
		return 0, fmt.Errorf("cannot read %q as USD", text)
	}
	p, err := strconv.ParseInt(part+strings.Repeat("0", 9-len(part)), 10, 64)
	if err != nil || p < 0 {
		return 0, fmt.Errorf("cannot read %q as USD", text)
	}
	n := w*1e9 + p
	if negative {
		n = -n
	}
	return n, nil
}
