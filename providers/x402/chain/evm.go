package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"farebox/providers/rpc"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
)

const (
	// callMost bounds answers of one or a few words.
	callMost = 4 << 10
	// blockMost bounds a block with the hashes of its transactions.
	blockMost = 1 << 20
	// receiptMost bounds a transaction's receipt, which many transfers may share.
	receiptMost = 2 << 20
	// logsMost bounds the answer with the one log that is sought, and others beside it.
	logsMost = 256 << 10
	// codeMost bounds a contract's code: 24 KB as hexadecimal digits, and some room.
	codeMost = 256 << 10
	// contractGas is the gas that a contract wallet may use to check a signature: one that
	// verifies P-256 by itself takes about a million.
	contractGas = "0x4c4b40"
	reverted    = 3 // code of a call that a contract ended
	// firstStep is how many blocks back a search for a time begins.
	firstStep = 1024
	// moment is the time for a node that is behind the head that it reported.
	moment = 300 * time.Millisecond
)

// errView is for a node whose answers do not fit together.
var errView = errors.New("its answers do not fit together")

// checkEVM says whether a node is on our chain and has our token there.
func (c *Chain) checkEVM(ctx context.Context, n *node) error {
	if err := c.checkID(ctx, n); err != nil {
		return err
	}
	separator, err := c.word(ctx, n, c.asset, evm.SeparatorCall(), "latest")
	if err != nil {
		return fmt.Errorf("it does not return the domain of the token: %w", err)
	}
	if separator != c.separator {
		return errors.New("its token has another domain; expected asset, name and version of the network as the token has " +
			"them")
	}
	decimals, err := c.word(ctx, n, c.asset, evm.DecimalsCall(), "latest")
	if err != nil {
		return fmt.Errorf("it does not return the decimals of the token: %w", err)
	}
	if decimals != sixDecimals {
		return errors.New("its token has another number of decimals; expected an asset with 6")
	}
	return nil
}

// sixDecimals are the decimals of every accepted token.
var sixDecimals = evm.Word{31: 6}

// checkID says whether a node is on our chain.
func (c *Chain) checkID(ctx context.Context, n *node) error {
	raw, err := n.ask(ctx, "eth_chainId", `[]`, callMost)
	if err != nil {
		return err
	}
	var id string
	if json.Unmarshal(raw, &id) != nil || !c.isChain(quantity(id)) {
		return errors.New("it is on another chain")
	}
	return nil
}

// quantity reads a number as Ethereum writes it; nil if it is not one.
func quantity(s string) *big.Int {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || digits == "" || len(digits) > 64 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return nil
	}
	v, _ := new(big.Int).SetString(digits, 16)
	return v
}

// number is quantity for one that fits.
func number(s string) (int64, bool) {
	v := quantity(s)
	if v == nil || !v.IsInt64() {
		return 0, false
	}
	return v.Int64(), true
}

// call asks a contract.
func (c *Chain) call(ctx context.Context, n *node, to wallet.Address, data []byte, more, block string) ([]byte, error) {
	raw, err := n.ask(ctx, "eth_call", fmt.Sprintf(`[{"to":%q,"data":%q%s},%q]`, to.String(), evm.Hex(data), more, block),
		callMost)
	if err != nil {
		return nil, err
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, errView
	}
	b, ok := evm.ParseHex(text, callMost)
	if !ok {
		return nil, errView
	}
	return b, nil
}

// word is the answer of a contract that is one word.
func (c *Chain) word(ctx context.Context, n *node, to wallet.Address, data []byte, block string) (evm.Word, error) {
	b, err := c.call(ctx, n, to, data, "", block)
	if err != nil {
		return evm.Word{}, err
	}
	if len(b) != len(evm.Word{}) {
		return evm.Word{}, errView
	}
	return evm.Word(b), nil
}

// soon asks once more after a moment where a node answers with an error: behind one
// address there may be several, of which one does not have the newest block yet.
func soon[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	answer, err := ask()
	var said *rpc.CallError
	if !errors.As(err, &said) {
		return answer, err
	}
	select {
	case <-ctx.Done():
		return answer, err
	case <-time.After(moment):
		return ask()
	}
}

// used says whether an authorization's nonce is used up as of a block.
func (c *Chain) used(ctx context.Context, n *node, asset wallet.Address, a *evm.Authorization, block int64) (bool,
	error) {
	w, err := c.word(ctx, n, asset, evm.StateCall(a.From, a.Nonce), hex(block))
	if err != nil {
		return false, err
	}
	switch w {
	case evm.Word{}:
		return false, nil
	case evm.Word{31: 1}:
		return true, nil
	}
	return false, errView
}

func hex(n int64) string { return fmt.Sprintf("0x%x", n) }

// block is number and time of one.
func (c *Chain) block(ctx context.Context, n *node, tag string) (height, unix int64, err error) {
	raw, err := n.ask(ctx, "eth_getBlockByNumber", fmt.Sprintf(`[%q,false]`, tag), blockMost)
	if err != nil {
		return 0, 0, err
	}
	var b struct{ Number, Timestamp string }
	if json.Unmarshal(raw, &b) != nil {
		return 0, 0, errView
	}
	height, ok := number(b.Number)
	unix, fits := number(b.Timestamp)
	if !ok || !fits || height < 0 || tag != "latest" && tag != hex(height) {
		return 0, 0, errView
	}
	return height, unix, nil
}

// blockAt is the first block of at least that time, or the head where all are earlier.
// It needs only headers, which every node has for all blocks.
func (c *Chain) blockAt(ctx context.Context, n *node, unix, head, headUnix int64) (int64, error) {
	if headUnix < unix {
		return head, nil
	}
	// low is earlier than unix, and high is not.
	low, lowUnix, high, highUnix := int64(-1), int64(0), head, headUnix
	look := func(at int64) error {
		_, t, err := c.block(ctx, n, hex(at))
		if t < unix {
			low, lowUnix = at, t
		} else {
			high, highUnix = at, t
		}
		return err
	}
	for step := int64(firstStep); high > 0 && low < 0; step *= 4 {
		if err := look(max(0, head-step)); err != nil {
			return 0, err
		}
	}
	for guess := true; high-low > 1; guess = !guess {
		at := low + (high-low)/2
		if guess && low >= 0 && highUnix > lowUnix { // blocks are about evenly spaced
			at = low + int64(float64(high-low)*float64(unix-lowUnix)/float64(highUnix-lowUnix))
			at = min(max(at, low+1), high-1)
		}
		if err := look(at); err != nil {
			return 0, err
		}
	}
	return high, nil
}

// lookEVM is Look at one node.
func (c *Chain) lookEVM(ctx context.Context, n *node, o *x402.Order) (s StateBefore, err error) {
	a, _, _, asset, err := parts(o)
	if err != nil {
		return s, err
	}
	head, unix, err := c.block(ctx, n, "latest")
	if err != nil {
		return s, err
	}
	s.Used, err = soon(ctx, func() (bool, error) { return c.used(ctx, n, asset, &a, head) })
	if err != nil {
		return s, err
	}
	if s.Used {
		// No client signs for longer, so that it was not used before.
		until, _ := a.ValidBefore.Int()
		s.Since, err = c.blockAt(ctx, n, until-int64(x402.MostLife/time.Second), head, unix)
		return s, err
	}
	balance, err := soon(ctx, func() (evm.Word, error) {
		return c.word(ctx, n, asset, evm.BalanceCall(a.From), hex(head))
	})
	if err != nil {
		return s, err
	}
	value := a.Value.Word()
	s.Covered = new(big.Int).SetBytes(balance[:]).Cmp(new(big.Int).SetBytes(value[:])) >= 0
	s.Expired, s.Since = over(&a, unix), head
	return s, nil
}

// parts are the parsed parts of an order of EVM.
func parts(o *x402.Order) (a evm.Authorization, digest evm.Word, signature []byte, asset wallet.Address, err error) {
	if a, digest, signature, err = o.Authorization(); err == nil {
		asset, err = wallet.ParseAddress(o.Asset)
	}
	return a, digest, signature, asset, err
}

// over says that blocks of that time, and later ones, do not take it any more.
func over(a *evm.Authorization, unix int64) bool {
	until, fits := a.ValidBefore.Int()
	return fits && unix >= until
}

// isRevert says that a contract ended a call, and not the node.
func isRevert(e *rpc.CallError) bool {
	return e.Code == reverted || strings.Contains(e.Message, "revert")
}

// signed is Signed at one node.
func (c *Chain) signed(ctx context.Context, n *node, who wallet.Address, hash [32]byte, signature []byte) (bool,
	error) {
	raw, err := n.ask(ctx, "eth_getCode", fmt.Sprintf(`[%q,"latest"]`, who.String()), codeMost)
	if err != nil {
		return false, err
	}
	var code string
	if json.Unmarshal(raw, &code) != nil || !strings.HasPrefix(code, "0x") {
		return false, errView
	}
	if code == "0x" {
		return false, nil // there is no contract that could have signed
	}
	answer, err := c.call(ctx, n, who, evm.SignedCall(hash, signature), `,"gas":"`+contractGas+`"`, "latest")
	var said *rpc.CallError
	switch {
	case errors.As(err, &said) && isRevert(said):
		return false, nil
	case err != nil:
		return false, err
	}
	return len(answer) == len(evm.Word{}) && evm.Word(answer) == evm.SignatureGood, nil
}
