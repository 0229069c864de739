package x402

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"farebox/config/onchain"
	"farebox/providers/x402/evm"
)

// Transfer is money that reached pay_to, by any sender. It is comparable.
type Transfer struct {
	Transaction string // hash, or signature
	Index       int    // on EVM: of the log among those of the transaction
	Block       int64
	From        string // the payer, as accounts are named
	Units       int64
	Nonce       string   // on EVM, of the authorization that moved it; empty if absent
	Message     [32]byte // on Solana, digest of the signed message
}

// Payment is a transfer as a payment, the same one that Read makes of the signed header:
// either of both is credited, and never both. Same is empty, since the signed text is not
// known.
func (n *Network) Payment(t *Transfer) (*onchain.Payment, error) {
	o := &Order{Network: n.Name, Asset: n.Asset.String(), PayTo: n.PayTo.String(), Payer: t.From, Units: t.Units,
		Requirement: n.Requirement(t.Units), Since: t.Block}
	if !n.EVM() {
		o.Moved = &MovedOrder{Transaction: t.Transaction}
		return o.payment(solanaIdentity(t.Message), [32]byte{}, time.Time{})
	}
	if t.Nonce == "" {
		o.Moved = &MovedOrder{Transaction: t.Transaction, Index: t.Index}
		return o.payment(fmt.Sprintf("evm transfer:%s:%s:%s:%d", n.Name, o.Asset, t.Transaction, t.Index), [32]byte{},
			time.Time{})
	}
	var nobody evm.Word // the digest is not known
	forever := evm.WordNumber(evm.Word(bytes.Repeat([]byte{0xff}, len(nobody))))
	o.EVM = &EVMOrder{From: t.From, To: o.PayTo, Value: evm.NumberOf(t.Units).String(), ValidAfter: "0",
		ValidBefore: forever.String(), Nonce: t.Nonce, Signature: "0x", Digest: evm.Hex(nobody[:])}
	return o.payment(n.evmIdentity(t.From, t.Nonce), [32]byte{}, time.Time{})
}

// evmIdentity identifies an authorization: token, payer and nonce.
func (n *Network) evmIdentity(from, nonce string) string {
	return fmt.Sprintf("evm:%s:%s:%s:%s", strings.TrimPrefix(n.Name, "eip155:"), n.Asset.String(), from,
		strings.TrimPrefix(nonce, "0x"))
}

// solanaIdentity identifies a transaction: by the digest of its signed message.
func solanaIdentity(message [32]byte) string { return fmt.Sprintf("svm:%x", message) }
