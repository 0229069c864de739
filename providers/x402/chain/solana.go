package chain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mr-tron/base58"

	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/providers/x402"
	"farebox/providers/x402/svm"
)

const (
	// transactionMost bounds a transaction with its effects.
	transactionMost = 256 << 10
	// listed is how many signatures a node lists at once, and listMost their text.
	listed   = 1000
	listMost = 1 << 20
	// window bounds the slots between the submission and a payment: its blockhash holds for
	// 150 blocks, and not every slot has one.
	window = 512
	// known is how many slots behind the submission a node's final slot must be before it
	// knows every blockhash that was current then.
	known = 32
	// candidates bounds the transactions that are looked at in one search.
	candidates = 128
	// pastCandidates bounds them for a payment at any time before.
	pastCandidates = 32
	// pastSlots is how far back: as long as x402.MostPast, with two and a half slots a
	// second.
	pastSlots = int64(x402.MostPast/time.Second) * 5 / 2
	// badParams is the code for a missing account.
	badParams = -32602
)

// Reasons of payments that never will be paid.
const (
	reasonFailed    = "transaction_failed"
	reasonBlockhash = "blockhash_expired"
)

// checkSolana says whether a node is on our chain, which is named by the beginning of
// its first block's hash.
func (c *Chain) checkSolana(ctx context.Context, n *node) error {
	raw, err := n.ask(ctx, "getGenesisHash", `[]`, callMost)
	if err != nil {
		return err
	}
	var hash string
	if json.Unmarshal(raw, &hash) != nil || !strings.HasPrefix(hash, c.reference) {
		return errors.New("it is on another chain")
	}
	return nil
}

// contextual is an answer with its slot.
type contextual[T any] struct {
	Context *struct{ Slot int64 }
	Value   T
}

// blockhash says whether a blockhash is known and not too old, and as of which slot.
func (c *Chain) blockhash(ctx context.Context, n *node, t *svm.Transaction, level string) (valid bool, slot int64,
	err error) {
	raw, err := n.ask(ctx, "isBlockhashValid", fmt.Sprintf(`[%q,{"commitment":%q}]`, base58.Encode(t.Blockhash[:]), level),
		callMost)
	if err != nil {
		return false, 0, err
	}
	var answer contextual[*bool]
	if json.Unmarshal(raw, &answer) != nil || answer.Value == nil || answer.Context == nil {
		return false, 0, errView
	}
	return *answer.Value, answer.Context.Slot, nil
}

// lookSolana is Look at one node.
func (c *Chain) lookSolana(ctx context.Context, n *node, o *x402.Order) (s StateBefore, err error) {
	t, err := o.Transaction()
	if err != nil {
		return s, err
	}
	raw, err := n.ask(ctx, "getSlot", `[{"commitment":"confirmed"}]`, callMost)
	if err != nil {
		return s, err
	}
	if s.Since, err = strconv.ParseInt(string(raw), 10, 64); err != nil || s.Since < 0 {
		return s, errView
	}
	valid, _, err := c.blockhash(ctx, n, t, "processed")
	if err != nil {
		return s, err
	}
	s.Expired = !valid
	if s.Covered, err = c.covered(ctx, n, o); err != nil {
		return s, err
	}
	at := *o
	at.Since = s.Since
	there, err := c.listedState(ctx, n, &at, t)
	if err == nil && there == nil && s.Expired {
		there, err = c.pastState(ctx, n, &at, t)
	}
	if err == nil && there != nil {
		return StateBefore{Used: true, Since: there.block}, nil
	}
	return s, err
}

// covered says whether the source holds the amount.
func (c *Chain) covered(ctx context.Context, n *node, o *x402.Order) (bool, error) {
	raw, err := n.ask(ctx, "getTokenAccountBalance", fmt.Sprintf(`[%q,{"commitment":"confirmed"}]`, o.Solana.Source),
		callMost)
	var said *rpc.CallError
	if errors.As(err, &said) && said.Code == badParams {
		return false, nil // the payer has no account of this token
	}
	if err != nil {
		return false, err
	}
	var answer contextual[*struct{ Amount string }]
	if json.Unmarshal(raw, &answer) != nil || answer.Value == nil {
		return false, errView
	}
	amount, err := strconv.ParseUint(answer.Value.Amount, 10, 64)
	if err != nil {
		return false, errView
	}
	return amount >= uint64(o.Units), nil
}

// findSolana is Find at one node.
func (c *Chain) findSolana(ctx context.Context, n *node, o *x402.Order, hint string) (paymentState, error) {
	t, err := o.Transaction()
	if err != nil {
		return paymentState{}, err
	}
	if b, err := base58.Decode(hint); err == nil && len(b) == 64 && len(hint) <= 88 {
		if f, err := c.stateOf(ctx, n, t, hint); err == nil && f != nil {
			return *f, nil
		}
	}
	if f, err := c.listedState(ctx, n, o, t); err != nil || f != nil {
		return opened(f), err
	}
	valid, slot, err := c.blockhash(ctx, n, t, "finalized")
	if err != nil || valid || slot < o.Since+known {
		return paymentState{is: onchain.Open}, err
	}
	// It cannot be taken any more; it may have been since the first search.
	if f, err := c.listedState(ctx, n, o, t); err != nil || f != nil {
		return opened(f), err
	}
	return paymentState{is: onchain.Over, reason: reasonBlockhash, settled: true, final: true}, nil
}

func opened(f *paymentState) paymentState {
	if f == nil {
		return paymentState{}
	}
	return *f
}

// listedState looks for a transaction among those of the account that pays, around the
// slot in which it was submitted; nil if absent.
func (c *Chain) listedState(ctx context.Context, n *node, o *x402.Order, t *svm.Transaction) (*paymentState, error) {
	return c.stateAmong(ctx, n, o, t, o.Since-window, o.Since+window, candidates)
}

// pastState looks for a transaction whose blockhash is too old among the last ones of the
// account that pays; nil if absent.
func (c *Chain) pastState(ctx context.Context, n *node, o *x402.Order, t *svm.Transaction) (*paymentState, error) {
	f, err := c.stateAmong(ctx, n, o, t, o.Since-pastSlots, o.Since-window-1, pastCandidates)
	if errors.Is(err, errTooFar) {
		err = nil
	}
	return f, err
}

// stateAmong looks for a transaction between two slots, among so many of the account that
// pays.
func (c *Chain) stateAmong(ctx context.Context, n *node, o *x402.Order, t *svm.Transaction, first, last int64,
	most int) (*paymentState, error) {
	raw, err := n.ask(ctx, "getSignaturesForAddress", fmt.Sprintf(`[%q,{"limit":%d,"commitment":"confirmed"}]`,
		o.Solana.Source, listed), listMost)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Signature string
		Slot      int64
	}
	if json.Unmarshal(raw, &list) != nil || len(list) > listed {
		return nil, errView
	}
	looked := 0
	for _, one := range list {
		if one.Slot < first || one.Slot > last {
			continue
		}
		if looked++; looked > most {
			return nil, errTooFar
		}
		f, err := c.stateOf(ctx, n, t, one.Signature)
		if err != nil || f != nil {
			return f, err
		}
	}
	if len(list) == listed && list[len(list)-1].Slot >= first {
		return nil, errTooFar
	}
	return nil, nil
}

// landedTransaction is a transaction that is in a block, and its effect.
type landedTransaction struct {
	Slot        int64
	Transaction []string
	Meta        *struct {
		Err                                 json.RawMessage
		PreTokenBalances, PostTokenBalances balances
		LoadedAddresses                     struct{ Writable, Readonly []string }
	}
}

// transactionOf asks for one, with its bytes; nil: the chain does not have it.
func transactionOf(ctx context.Context, n *node, signature string) (t *landedTransaction, wire []byte, err error) {
	raw, err := n.ask(ctx, "getTransaction", fmt.Sprintf(
		`[%q,{"encoding":"base64","commitment":"confirmed","maxSupportedTransactionVersion":0}]`, signature),
		transactionMost)
	if err != nil {
		return nil, nil, err
	}
	if json.Unmarshal(raw, &t) != nil {
		return nil, nil, errView
	}
	if t == nil {
		return nil, nil, nil
	}
	if len(t.Transaction) != 2 || t.Transaction[1] != "base64" || t.Meta == nil {
		return nil, nil, errView
	}
	if wire, err = base64.StdEncoding.DecodeString(t.Transaction[0]); err != nil {
		return nil, nil, errView
	}
	return t, wire, nil
}

// stateOf is the outcome of a transaction if it is the one that was signed, byte for byte;
// nil: it is another one.
func (c *Chain) stateOf(ctx context.Context, n *node, t *svm.Transaction, signature string) (*paymentState, error) {
	if b, err := base58.Decode(signature); err != nil || len(b) != 64 {
		return nil, errView
	}
	answer, wire, err := transactionOf(ctx, n, signature)
	if err != nil || answer == nil {
		return nil, err
	}
	got, err := svm.Parse(wire)
	if err != nil || !bytes.Equal(got.Message, t.Message) {
		return nil, nil // ours could be read
	}
	if base58.Encode(got.Signatures[0][:]) != signature {
		return nil, errView
	}
	return c.landed(ctx, n, signature, answer.Slot, string(answer.Meta.Err))
}

// landed is the state of the signed transaction, which is in a block.
func (c *Chain) landed(ctx context.Context, n *node, signature string, slot int64, failed string) (*paymentState,
	error) {
	raw, err := n.ask(ctx, "getSignatureStatuses", fmt.Sprintf(`[[%q],{"searchTransactionHistory":true}]`, signature),
		callMost)
	if err != nil {
		return nil, err
	}
	var answer contextual[[]*struct {
		Slot               int64
		ConfirmationStatus string
		Err                json.RawMessage
	}]
	if json.Unmarshal(raw, &answer) != nil || len(answer.Value) != 1 || answer.Value[0] == nil {
		return nil, errView
	}
	status := answer.Value[0]
	final := status.ConfirmationStatus == "finalized"
	if status.Slot != slot || failed == "" || len(status.Err) == 0 ||
		(failed == "null") != (string(status.Err) == "null") {
		return nil, errView
	}
	switch {
	case failed == "null":
		return &paymentState{is: onchain.Paid, transaction: signature, block: slot,
			settled: final || status.ConfirmationStatus == "confirmed", final: final}, nil
	case final:
		return &paymentState{is: onchain.Spent, reason: reasonFailed, block: slot, settled: true, final: true}, nil
	}
	return &paymentState{is: onchain.Open}, nil
}

// Blockhash is one that a transaction can be made with. A false one of a node does no harm:
// the payment is not taken then.
func (c *Chain) Blockhash(ctx context.Context) (hash [32]byte, err error) {
	views, err := agreed(ctx, c.alone(), func(ctx context.Context, n *node) ([32]byte, error) {
		raw, err := n.ask(ctx, "getLatestBlockhash", `[{"commitment":"confirmed"}]`, callMost)
		if err != nil {
			return hash, err
		}
		var answer contextual[struct{ Blockhash string }]
		if json.Unmarshal(raw, &answer) != nil {
			return hash, errView
		}
		b, err := base58.Decode(answer.Value.Blockhash)
		if err != nil || len(b) != len(hash) {
			return hash, errView
		}
		return [32]byte(b), nil
	}, func(a, b [32]byte) bool { return a == b })
	if err != nil {
		return hash, err
	}
	return views[0], nil
}
