package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"farebox/config/onchain"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
)

// headers are those of a chain with a block at each of these times.
func headers(times ...int64) script {
	return script{"eth_getBlockByNumber": func(p []json.RawMessage) (string, error) {
		n := len(times) - 1
		if string(p[0]) != `"latest"` {
			if _, err := fmt.Sscanf(strings.Trim(string(p[0]), `"`), "0x%x", &n); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf(`{"number":"%#x","timestamp":"%#x"}`, n, times[n]), nil
	}}
}

// The first block of a time is found by headers, however unevenly blocks come.
func TestBlockOfATimeIsFoundByHeaders(t *testing.T) {
	var even, odd []int64
	for i := range int64(5000) {
		even, odd = append(even, 1000+2*i), append(odd, 1000+i*i/7)
	}
	for name, times := range map[string][]int64{"even": even, "odd": odd, "same": {5, 5, 5, 5}, "one": {5}} {
		n, last := headers(times...).node(), len(times)-1
		for _, unix := range []int64{-1, 0, 4, 5, 6, 999, 1000, 1001, 3333, 8765, times[last] - 1, times[last], times[last] + 1} {
			want := 0
			for want < last && times[want] < unix {
				want++
			}
			got, err := base(t).blockAt(context.Background(), n, unix, int64(last), times[last])
			if err != nil || got != int64(want) {
				t.Errorf("%s: the first block at %d is %d (%v), not %d", name, unix, got, err, want)
			}
		}
	}
}

// A transfer belongs to an authorization only if that comes right before it.
func TestTransfersOfAReceiptAreReadAsTheTokenLogsThem(t *testing.T) {
	c := base(t)
	c.payTo = parsed(t, to)
	for name, one := range map[string]struct {
		logs  []string
		want  []int // their places
		nonce string
	}{
		"plain":               {[]string{transfer(4, to, 7)}, []int{0}, ""},
		"by an authorization": {[]string{used(4, 1), transfer(5, to, 7)}, []int{1}, nonce(1)},
		"not at once":         {[]string{used(3, 1), transfer(5, to, 7)}, []int{1}, ""},
		"of another payer": {[]string{strings.Replace(used(4, 1), padded(from), padded(stranger), 1), transfer(5, to, 7)},
			[]int{1}, ""},
		"of another token": {[]string{strings.Replace(used(4, 1), asset, stranger, 1), transfer(5, to, 7)},
			[]int{1}, ""},
		"to another receiver": {[]string{used(4, 1), transfer(5, stranger, 7)}, nil, ""},
		"another token":       {[]string{strings.Replace(transfer(5, to, 7), asset, stranger, 1)}, nil, ""},
		"nothing":             {[]string{transfer(5, to, 0)}, nil, ""},
		"more than there is": {[]string{strings.Replace(transfer(5, to, 0), fmt.Sprintf("0x%064x", 0), "0x"+strings.Repeat("f", 64),
			1)}, nil, ""},
		"removed": {[]string{strings.Replace(transfer(5, to, 7), `"removed":false`, `"removed":true`, 1)}, nil, ""},
		"two":     {[]string{transfer(5, to, 7), transfer(6, to, 7)}, []int{0, 1}, ""},
		"a sender that is too long": {[]string{strings.Replace(transfer(5, to, 7), padded(from), "0x01"+padded(from)[4:],
			1)}, nil, ""},
	} {
		s := script{"eth_getTransactionReceipt": says(receipt("0x1", head-20, one.logs...))}
		list, err := c.movedBy(context.Background(), s.node(), paidIn)
		if err != nil || len(list) != len(one.want) {
			t.Errorf("%s: %+v %v", name, list, err)
			continue
		}
		for i, got := range list {
			want := x402.Transfer{Transaction: paidIn, Index: one.want[i], Block: head - 20, From: from, Units: 7,
				Nonce: one.nonce}
			if got != want {
				t.Errorf("%s: %+v, not %+v", name, got, want)
			}
		}
	}
	failed := script{"eth_getTransactionReceipt": says(receipt("0x0", head-20, transfer(4, to, 7)))}
	if list, err := c.movedBy(context.Background(), failed.node(), paidIn); len(list) != 0 || err != nil {
		t.Errorf("a transaction that failed moved %+v %v", list, err)
	}
	lying := script{"eth_getLogs": says("[" + strings.Replace(transfer(4, to, 7), paidIn, "0x12", 1) + "]")}
	if list, err := c.moving(context.Background(), lying.node(), head-100, head); err == nil {
		t.Errorf("an invalid hash is listed: %v", list)
	}
}

// The token's own values are compared with the config; an error has the right value.
func TestTokensAreComparedWithTheConfig(t *testing.T) {
	text := func(s string) string {
		return fmt.Sprintf("%064x%064x%x%s", 32, len(s), s, strings.Repeat("00", 32-len(s)))
	}
	domain := base(t).separator
	right := map[string]string{evm.Hex(evm.SeparatorCall()): evm.Hex(domain[:]),
		evm.Hex(evm.DecimalsCall()): fmt.Sprintf("0x%064x", 6), evm.Hex(evm.NameCall()): "0x" + text("USD Coin"),
		evm.Hex(evm.VersionCall()): "0x" + text("2")}
	for name, c := range map[string]struct {
		name, version string
		change        func(answers map[string]string)
		want          string // empty: it is right
	}{
		"right":        {"USD Coin", "2", nil, ""},
		"another name": {"USDC", "2", nil, `found name "USD Coin" and version "2"; write these`},
		"no version()": {"USDC", "2", func(a map[string]string) { delete(a, evm.Hex(evm.VersionCall())) },
			`found name "USD Coin" and version "2"; write`},
		"no domain": {"USD Coin", "2", func(a map[string]string) { a[evm.Hex(evm.SeparatorCall())] = "0x" },
			"has no DOMAIN_SEPARATOR()"},
		"odd text": {"USDC", "1", func(a map[string]string) { a[evm.Hex(evm.NameCall())] = "0x" + strings.Repeat("ff", 96) },
			"found the separator 0x"},
		"other digits": {"USD Coin", "2", func(a map[string]string) { a[evm.Hex(evm.DecimalsCall())] = fmt.Sprintf("0x%064x", 18) },
			"another number of decimals"},
		"known by 5267": {"USDC", "2", func(a map[string]string) {
			delete(a, evm.Hex(evm.NameCall()))
			a[evm.Hex(evm.DomainCall())] = "0x" + fmt.Sprintf("%064x%064x%064x", 0x0f, 96, 160) +
				text("USD Coin")[64:] + text("2")[64:]
		}, `found name "USD Coin" and version "2"; write`},
	} {
		answers := map[string]string{}
		for call, answer := range right {
			answers[call] = answer
		}
		if c.change != nil {
			c.change(answers)
		}
		s := script{"eth_call": func(p []json.RawMessage) (string, error) {
			var asked struct{ Data string }
			if err := json.Unmarshal(p[0], &asked); err != nil {
				return "", err
			}
			if answer, ok := answers[asked.Data]; ok {
				return quoted(answer), nil
			}
			return `"0x"`, nil
		}}
		chain := base(t)
		chain.name, chain.version = c.name, c.version
		d := evm.Domain{Name: c.name, Version: c.version, ChainID: quantity("0x2105"), Asset: chain.asset}
		chain.separator = d.Separator()
		said, err := chain.token(context.Background(), s.node())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if wrong := chain.tokenError(&said); (wrong == nil) != (c.want == "") || wrong != nil &&
			!strings.Contains(wrong.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, wrong, c.want)
		}
	}
}

// A transaction that used a nonce long before is not searched in the whole chain.
func TestAnAuthorizationThatWasUsedLongBeforeIsSpent(t *testing.T) {
	s := truthful(t, true)
	o := order(head - 100)
	if _, err := base(t).findEVM(context.Background(), s.node(), o, ""); err == nil {
		t.Error("a node that hides the use of a nonce is believed")
	}
	o.Past = true
	if f, err := base(t).findEVM(context.Background(), s.node(), o, ""); err != nil || f.is != onchain.Spent {
		t.Errorf("it is %+v %v", f, err)
	}
}
