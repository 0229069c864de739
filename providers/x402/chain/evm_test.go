package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
)

const (
	asset    = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
	from     = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
	to       = "0x2670b922ef37c7df47158725c0cc407b5382293f"
	stranger = "0x00000000000000000000000000000000000000aa"
	paidIn   = "0x00000000000000000000000000000000000000000000000000000000000000f1"
	head     = 40_000_000
	until    = 2_000_000_000
)

// script is a node that answers by a table.
type script map[string]func(params []json.RawMessage) (string, error)

func (s script) node() *node {
	return &node{"scripted", func(_ context.Context, method, params string, most int) ([]byte, error) {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(params), &list); err != nil {
			return nil, fmt.Errorf("params %s: %w", params, err)
		}
		answer := s[method]
		if answer == nil {
			return nil, &rpc.CallError{Code: -32601, Message: "no such method"}
		}
		text, err := answer(list)
		if err == nil && len(text) > most {
			return nil, errors.New("its answer is too long")
		}
		return []byte(text), err
	}}
}

func says(text string) func([]json.RawMessage) (string, error) {
	return func([]json.RawMessage) (string, error) { return text, nil }
}

func parsed(t testing.TB, s string) wallet.Address {
	t.Helper()
	a, err := wallet.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func base(t testing.TB) *Chain {
	d := evm.Domain{Name: "USD Coin", Version: "2", ChainID: big.NewInt(8453), Asset: parsed(t, asset)}
	return &Chain{asset: d.Asset, separator: d.Separator(), reference: "8453", confirmations: 2, finalDepth: 12}
}

func nonce(n byte) string { return "0x" + strings.Repeat(fmt.Sprintf("%02x", n), 32) }

// order is of 7 USD, prepared at a block.
func order(since int64) *x402.Order {
	return &x402.Order{Network: "eip155:8453", Asset: asset, PayTo: to, Payer: from, Units: 7_000_000, Since: since,
		EVM: &x402.EVMOrder{From: from, To: to, Value: "7000000", ValidAfter: "0", ValidBefore: fmt.Sprint(until),
			Nonce: nonce(1), Digest: nonce(9), Signature: "0x01"}}
}

func padded(address string) string { return "0x" + strings.Repeat("0", 24) + address[2:] }

func quoted(s string) string { return `"` + s + `"` }

func entry(index int, data string, topics ...string) string {
	text, _ := json.Marshal(topics)
	return fmt.Sprintf(`{"address":%q,"topics":%s,"data":%q,"blockNumber":"%#x","transactionHash":%q,"logIndex":"%#x",`+
		`"removed":false}`, asset, text, data, head-20, paidIn, index)
}

func used(index int, n byte) string {
	return entry(index, "0x", evm.Hex(evm.AuthorizationUsed[:]), padded(from), nonce(n))
}

func transfer(index int, receiver string, units int64) string {
	return entry(index, fmt.Sprintf("0x%064x", units), evm.Hex(evm.Transfer[:]), padded(from), padded(receiver))
}

// truthful is a node of a chain with a receipt of these logs.
func truthful(t testing.TB, isUsed bool, logs ...string) script {
	return script{
		"eth_getBlockByNumber": func(p []json.RawMessage) (string, error) {
			n := int64(head)
			if string(p[0]) != `"latest"` {
				if _, err := fmt.Sscanf(strings.Trim(string(p[0]), `"`), "0x%x", &n); err != nil {
					t.Error(err)
				}
			}
			return fmt.Sprintf(`{"number":"%#x","timestamp":"%#x","hash":"0x1"}`, n, until-head+n-100), nil
		},
		"eth_call": func(p []json.RawMessage) (string, error) {
			return fmt.Sprintf(`"0x%063x%d"`, 0, map[bool]int{true: 1}[isUsed]), nil
		},
		"eth_getLogs":               says("[" + strings.Join(logs, ",") + "]"),
		"eth_getTransactionReceipt": says(receipt("0x1", head-20, logs...)),
	}
}

func receipt(status string, block int64, logs ...string) string {
	return fmt.Sprintf(`{"transactionHash":%q,"blockNumber":"%#x","status":%q,"logs":[%s]}`, paidIn, block, status,
		strings.Join(logs, ","))
}

// A transfer counts for the authorization that it was made by, and for no other one
// of the same transaction.
func TestOnlyItsOwnTransferPays(t *testing.T) {
	elsewhere := onchain.Spent
	for name, c := range map[string]struct {
		logs []string
		want onchain.State
		ok   bool
	}{
		"paid": {[]string{used(4, 1), transfer(5, to, 7_000_000)}, onchain.Paid, true},
		"paid among others": {[]string{used(1, 2), transfer(2, stranger, 7_000_000), used(3, 1), transfer(4, to,
			7_000_000), transfer(5, to, 1)}, onchain.Paid, true},
		"too little":       {[]string{used(4, 1), transfer(5, to, 6_999_999)}, elsewhere, true},
		"too much":         {[]string{used(4, 1), transfer(5, to, 7_000_001)}, elsewhere, true},
		"another receiver": {[]string{used(4, 1), transfer(5, stranger, 7_000_000)}, elsewhere, true},
		"no transfer":      {[]string{used(4, 1)}, elsewhere, true},
		"another one's, behind": {[]string{used(1, 1), transfer(2, stranger, 7_000_000), used(3, 2), transfer(4, to,
			7_000_000)}, elsewhere, true},
		"another one's, before": {[]string{used(1, 2), transfer(2, to, 7_000_000), used(3, 1), transfer(4, stranger,
			7_000_000)}, elsewhere, true},
		"not at once": {[]string{used(1, 1), transfer(3, to, 7_000_000)}, elsewhere, true},
		"removed": {[]string{used(4, 1), strings.Replace(transfer(5, to, 7_000_000), `"removed":false`,
			`"removed":true`, 1)}, elsewhere, true},
		"another token": {[]string{used(4, 1), strings.Replace(transfer(5, to, 7_000_000), asset, stranger, 1)},
			elsewhere, true},
		"another payer": {[]string{used(4, 1), strings.Replace(transfer(5, to, 7_000_000), padded(from), padded(stranger),
			1)},
			elsewhere, true},
		"an address with more in it": {[]string{used(4, 1), strings.Replace(transfer(5, to, 7_000_000), padded(to),
			"0x01"+padded(to)[4:], 1)}, elsewhere, true},
		"canceled": {[]string{strings.Replace(used(4, 1), evm.Hex(evm.AuthorizationUsed[:]),
			evm.Hex(evm.AuthorizationCanceled[:]), 1)}, elsewhere, true},
		"another nonce": {[]string{used(4, 3), transfer(5, to, 7_000_000)}, 0, false},
		"another token's nonce": {[]string{strings.Replace(used(4, 1), asset, stranger, 1), transfer(5, to, 7_000_000)}, 0,
			false},
		"nothing": {nil, 0, false},
	} {
		for _, hint := range []string{"", paidIn} {
			f, err := base(t).findEVM(context.Background(), truthful(t, true, c.logs...).node(), order(head-100), hint)
			if (err == nil) != c.ok || f.is != c.want {
				t.Errorf("%s, hint %q: %+v %v", name, hint, f, err)
			}
			if f.is == onchain.Paid && (f.transaction != paidIn || !f.settled || !f.final) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// How deep a payment is decides whether it is credited and whether that is for good.
func TestDepthDecides(t *testing.T) {
	for _, c := range []struct {
		block          int64
		settled, final bool
	}{{head, false, false}, {head - 1, true, false}, {head - 10, true, false}, {head - 11, true, true}} {
		s := truthful(t, true, used(4, 1), transfer(5, to, 7_000_000))
		s["eth_getTransactionReceipt"] = says(receipt("0x1", c.block, used(4, 1), transfer(5, to, 7_000_000)))
		f, err := base(t).findEVM(context.Background(), s.node(), order(head-100), paidIn)
		if err != nil || f.is != onchain.Paid || f.settled != c.settled || f.final != c.final {
			t.Errorf("at depth %d: %+v %v", head-c.block+1, f, err)
		}
		s["eth_getTransactionReceipt"] = says(receipt("0x1", c.block, used(4, 1)))
		want := onchain.Open // it may be undone
		if c.final {
			want = onchain.Spent
		}
		if f, err = base(t).findEVM(context.Background(), s.node(), order(head-100), paidIn); err != nil || f.is != want {
			t.Errorf("used otherwise at depth %d: %+v %v", head-c.block+1, f, err)
		}
	}
}

// An unused authorization is over once a block that is deep enough came too late.
func TestTimeIsTheChains(t *testing.T) {
	for _, c := range []struct {
		before int64
		want   onchain.State
	}{
		{until - 99, onchain.Open},   // after the head
		{until - 100, onchain.Open},  // at the head, which may be undone
		{until - 111, onchain.Open},  //
		{until - 112, onchain.Over},  // 12 blocks deep
		{until - 1000, onchain.Over}, //
	} {
		o := order(head - 100)
		o.EVM.ValidBefore = fmt.Sprint(c.before)
		f, err := base(t).findEVM(context.Background(), truthful(t, false).node(), o, "")
		if err != nil || f.is != c.want {
			t.Errorf("valid before %d: %+v %v", c.before-until, f, err)
		}
	}
	o := order(head)
	o.EVM.ValidBefore = new(big.Int).Lsh(big.NewInt(1), 255).String()
	if f, err := base(t).findEVM(context.Background(), truthful(t, false).node(), o, ""); err != nil ||
		f.is != onchain.Open {
		t.Errorf("one that holds for ever: %+v %v", f, err)
	}
}

// A node that gives few blocks of logs at once, or none of old states, is asked as it
// can be, and not without end.
func TestSearchesFitTheNode(t *testing.T) {
	const at = head - 5_000 // where it was used
	calls := 0
	limited := func(widest, states int64) script {
		s := truthful(t, true, used(4, 1), transfer(5, to, 7_000_000))
		calls = 0
		number := func(raw json.RawMessage) (n int64) {
			if _, err := fmt.Sscanf(strings.Trim(string(raw), `"`), "0x%x", &n); err != nil {
				t.Error(err)
			}
			return n
		}
		s["eth_call"] = func(p []json.RawMessage) (string, error) {
			calls++
			block := number(p[1])
			if head-block > states {
				return "", &rpc.CallError{Code: -32000, Message: "missing trie node"}
			}
			return fmt.Sprintf(`"0x%063x%d"`, 0, map[bool]int{true: 1}[block >= at]), nil
		}
		s["eth_getLogs"] = func(p []json.RawMessage) (string, error) {
			calls++
			var f struct{ FromBlock, ToBlock json.RawMessage }
			if err := json.Unmarshal(p[0], &f); err != nil {
				t.Error(err)
			}
			first, last := number(f.FromBlock), number(f.ToBlock)
			switch {
			case last-first+1 > widest:
				return "", &rpc.CallError{Code: -32600, Message: "block range is too large"}
			case first <= at && at <= last:
				return "[" + strings.Replace(used(4, 1), fmt.Sprintf("%#x", head-20), fmt.Sprintf("%#x", at), 1) + "]", nil
			}
			return "[]", nil
		}
		s["eth_getTransactionReceipt"] = says(receipt("0x1", at, used(4, 1), transfer(5, to, 7_000_000)))
		return s
	}
	for _, c := range []struct {
		widest, states, since int64
		ok                    bool
	}{
		{10_000, head, head - 6_000, true}, {10_000, 0, head - 6_000, true}, {10, head, head - 30_000_000, true},
		{1, head, head - 6_000, true}, {500, 128, head - 20_000, true}, {10, 0, head - 6_000, false},
		{0, head, head - 6_000, false}, {500, 0, 0, true}, {50, 0, 0, false},
	} {
		f, err := base(t).findEVM(context.Background(), limited(c.widest, c.states).node(), order(c.since), "")
		if (err == nil && f.is == onchain.Paid) != c.ok || calls > searches+8 {
			t.Errorf("%+v: %+v %v after %d calls", c, f, err, calls)
		}
	}
}

// A node is a witness when it is on the chain and its token is ours.
func TestNodesOfOtherChainsAreNotWitnesses(t *testing.T) {
	word := func(w evm.Word) string { return quoted(evm.Hex(w[:])) }
	c := base(t)
	witness := func(id, separator, decimals string) *node {
		return script{"eth_chainId": says(id), "eth_call": func(p []json.RawMessage) (string, error) {
			if strings.Contains(string(p[0]), evm.Hex(evm.SeparatorCall())) {
				return separator, nil
			}
			return decimals, nil
		}}.node()
	}
	ours, six := word(c.separator), word(evm.Word{31: 6})
	if err := c.checkEVM(context.Background(), witness(`"0x2105"`, ours, six)); err != nil {
		t.Errorf("a node of the chain: %v", err)
	}
	for name, n := range map[string]*node{
		"another chain":  witness(`"0x1"`, ours, six),
		"a number":       witness(`8453`, ours, six),
		"no number":      witness(`"0x"`, ours, six),
		"a vast number":  witness(`"0x`+strings.Repeat("f", 65)+`"`, ours, six),
		"another domain": witness(`"0x2105"`, word(evm.Word{1}), six),
		"no contract":    witness(`"0x2105"`, `"0x"`, six),
		"18 decimals":    witness(`"0x2105"`, ours, word(evm.Word{31: 18})),
		"null":           witness(`null`, `null`, `null`),
	} {
		if err := c.checkEVM(context.Background(), n); err == nil {
			t.Errorf("%s is a witness", name)
		}
	}
}

// Before a payment is taken, the chain says whether its nonce and the money are there.
func TestLookSeesNonceAndMoney(t *testing.T) {
	look := func(state, balance string) (StateBefore, error) {
		s := truthful(t, false)
		s["eth_call"] = func(p []json.RawMessage) (string, error) {
			if strings.Contains(string(p[0]), "0x70a08231") {
				return balance, nil
			}
			return state, nil
		}
		return base(t).lookEVM(context.Background(), s.node(), order(0))
	}
	number := func(n int64) string { return fmt.Sprintf(`"0x%064x"`, n) }
	for _, c := range []struct {
		state, balance string
		want           StateBefore
		ok             bool
	}{
		{number(0), number(7_000_000), StateBefore{Covered: true, Since: head}, true},
		{number(0), number(6_999_999), StateBefore{Since: head}, true},
		{number(0), `"0x` + strings.Repeat("f", 64) + `"`, StateBefore{Covered: true, Since: head}, true},
		{number(1), number(7_000_000), StateBefore{Used: true, Since: head - 4100}, true}, // 70 minutes before it ends
		{number(2), number(7_000_000), StateBefore{}, false},
		{`"0x"`, number(7_000_000), StateBefore{}, false},
		{number(0), `"0x01"`, StateBefore{}, false},
		{`null`, `null`, StateBefore{}, false},
	} {
		if got, err := look(c.state, c.balance); (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s %s: %+v %v", c.state, c.balance, got, err)
		}
	}
}

// A node that is a moment behind its own head is asked again, once.
func TestNodesMayBeAMomentBehind(t *testing.T) {
	for _, c := range []struct {
		behind int // so many calls
		ok     bool
	}{{0, true}, {1, true}, {2, false}} {
		s := truthful(t, false)
		answer, left := s["eth_call"], c.behind
		s["eth_call"] = func(p []json.RawMessage) (string, error) {
			if left--; left >= 0 {
				return "", &rpc.CallError{Code: -32000, Message: "header not found"}
			}
			return answer(p)
		}
		f, err := base(t).findEVM(context.Background(), s.node(), order(head), "")
		if (err == nil) != c.ok || c.ok && f.is != onchain.Open {
			t.Errorf("behind for %d calls: %+v %v", c.behind, f, err)
		}
	}
}

// Only the magic word of its contract is a signature of a contract wallet.
func TestOnlyTheMagicWordIsASignature(t *testing.T) {
	ask := func(code, answer string, err error) (bool, error) {
		s := script{"eth_getCode": says(code), "eth_call": func([]json.RawMessage) (string, error) { return answer, err }}
		return base(t).signed(context.Background(), s.node(), parsed(t, from), [32]byte{1}, []byte{2})
	}
	magic := `"0x1626ba7e` + strings.Repeat("0", 56) + `"`
	for name, c := range map[string]struct {
		code, answer string
		err          error
		signed, ok   bool
	}{
		"signed":            {`"0x60"`, magic, nil, true, true},
		"EIP-7702":          {`"0xef0100` + strings.Repeat("ab", 20) + `"`, magic, nil, true, true},
		"no contract":       {`"0x"`, magic, nil, false, true},
		"another word":      {`"0x60"`, `"0xffffffff` + strings.Repeat("0", 56) + `"`, nil, false, true},
		"bytes behind it":   {`"0x60"`, magic[:len(magic)-1] + `00"`, nil, false, true},
		"true":              {`"0x60"`, `"0x` + strings.Repeat("0", 63) + `1"`, nil, false, true},
		"magic, not padded": {`"0x60"`, `"0x1626ba7e"`, nil, false, true},
		"magic and more":    {`"0x60"`, `"0x1626ba7e` + strings.Repeat("0", 55) + `1"`, nil, false, true},
		"nothing":           {`"0x60"`, `"0x"`, nil, false, true},
		"reverts":           {`"0x60"`, "", &rpc.CallError{Code: 3, Message: "x"}, false, true},
		"reverts in words":  {`"0x60"`, "", &rpc.CallError{Code: -32000, Message: "execution reverted"}, false, true},
		"node is busy":      {`"0x60"`, "", &rpc.CallError{Code: -32005, Message: "limit exceeded"}, false, false},
		"node is mute":      {`"0x60"`, "", errors.New("mute"), false, false},
		"code is null":      {`null`, magic, nil, false, false},
		"answer is null":    {`"0x60"`, `null`, nil, false, false},
	} {
		if signed, err := ask(c.code, c.answer, c.err); signed != c.signed || (err == nil) != c.ok {
			t.Errorf("%s: %v %v", name, signed, err)
		}
	}
}

// Whatever a node answers, nothing panics, and a found transaction is not paid unless the
// answers hold both logs.
func FuzzEVMNode(f *testing.F) {
	f.Add(fmt.Sprintf(`{"number":"%#x","timestamp":"0x1"}`, head), `"0x`+strings.Repeat("0", 63)+`1"`,
		"["+used(4, 1)+"]", receipt("0x1", head-20, used(4, 1), transfer(5, to, 7_000_000)))
	f.Add(`{"number":"0x1","timestamp":"0xffffffffff"}`, `"0x`+strings.Repeat("0", 64)+`"`, `[]`, `null`)
	f.Add(`null`, `"0x"`, `{}`, `{"logs":[{},{}]}`)
	f.Fuzz(func(t *testing.T, block, word, logs, receipt string) {
		c, o := base(t), order(head-100)
		s := script{"eth_getBlockByNumber": says(block), "eth_call": says(word), "eth_getLogs": says(logs),
			"eth_getTransactionReceipt": says(receipt), "eth_chainId": says(word), "eth_getCode": says(word)}
		for _, hint := range []string{"", paidIn} {
			found, err := c.findEVM(context.Background(), s.node(), o, hint)
			topics := []string{evm.Hex(evm.Transfer[:])[2:], evm.Hex(evm.AuthorizationUsed[:])[2:]}
			if err == nil && found.is == onchain.Paid && !slices.ContainsFunc(topics, func(topic string) bool {
				return strings.Contains(strings.ToLower(receipt), topic) || strings.Contains(receipt, `\u`)
			}) {
				t.Fatalf("paid by %q", receipt)
			}
		}
		_, _ = c.lookEVM(context.Background(), s.node(), o)
		_, _ = c.signed(context.Background(), s.node(), c.asset, [32]byte{}, nil)
		_ = c.checkEVM(context.Background(), s.node())
	})
}
