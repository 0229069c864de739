package chain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mr-tron/base58"

	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/svm"
)

// tokenBalance is the balance of a token of an account in a transaction.
type tokenBalance struct {
	AccountIndex  int
	Mint          string
	UITokenAmount struct{ Amount string } `json:"uiTokenAmount"`
}

// balances are those before or behind a transaction.
type balances []tokenBalance

// of is the balance of some accounts together.
func (b balances) of(accounts []string, mint string, mine []wallet.Address) (units int64, ok bool) {
	for _, one := range b {
		if one.AccountIndex < 0 || one.AccountIndex >= len(accounts) {
			return 0, false
		}
		if one.Mint != mint || !slices.ContainsFunc(mine, func(a wallet.Address) bool {
			return a.String() == accounts[one.AccountIndex]
		}) {
			continue
		}
		n, err := strconv.ParseInt(one.UITokenAmount.Amount, 10, 62)
		if err != nil {
			return 0, false
		}
		units += n
	}
	return units, true
}

// moved is a transaction on Solana, and the units of the token that it moved to an address.
type moved struct {
	x402.Transfer
	failed string // null: it did not
}

// movedAt asks for a transaction; nil: the chain does not have it.
func movedAt(ctx context.Context, n *node, signature string, mint, payTo wallet.Address) (*moved, error) {
	if b, err := base58.Decode(signature); err != nil || len(b) != 64 || len(signature) > 88 {
		return nil, errors.New("this is not a transaction signature; expected 64 bytes as base58")
	}
	answer, wire, err := transactionOf(ctx, n, signature)
	if err != nil || answer == nil {
		return nil, err
	}
	message, keys, signers, err := svm.Outline(wire)
	if err != nil {
		return nil, errView
	}
	var accounts []string
	for _, key := range keys {
		accounts = append(accounts, base58.Encode(key[:]))
	}
	from := accounts[min(1, signers-1)] // the signer beside the payer of the fee
	accounts = slices.Concat(accounts, answer.Meta.LoadedAddresses.Writable, answer.Meta.LoadedAddresses.Readonly)
	mine := svm.Accounts(payTo, mint)
	before, ok := answer.Meta.PreTokenBalances.of(accounts, mint.String(), mine)
	behind, fits := answer.Meta.PostTokenBalances.of(accounts, mint.String(), mine)
	if !ok || !fits || len(answer.Meta.Err) == 0 {
		return nil, errView
	}
	return &moved{x402.Transfer{Transaction: signature, Block: answer.Slot, From: from, Units: behind - before,
		Message: sha256.Sum256(message)}, string(answer.Meta.Err)}, nil
}

// movedBySolana is the transfer of a transaction on Solana to pay_to.
func (c *Chain) movedBySolana(ctx context.Context, n *node, signature string) ([]x402.Transfer, error) {
	m, err := movedAt(ctx, n, signature, c.asset, c.payTo)
	if err != nil || m == nil || m.failed != "null" || m.Units <= 0 {
		return nil, err
	}
	return []x402.Transfer{m.Transfer}, nil
}

// findMovedSolana is Find at one node for a transfer without a signature for us.
func (c *Chain) findMovedSolana(ctx context.Context, n *node, o *x402.Order, _ string) (paymentState, error) {
	mint, payTo, err := ends(o)
	if err != nil {
		return paymentState{}, err
	}
	m, err := movedAt(ctx, n, o.Moved.Transaction, mint, payTo)
	if err != nil {
		return paymentState{}, err
	}
	if m == nil {
		return paymentState{is: onchain.Open}, nil
	}
	if m.failed == "null" && m.Units != o.Units {
		return paymentState{}, errView // its effect is as unchangeable as its signature
	}
	f, err := c.landed(ctx, n, o.Moved.Transaction, m.Block, m.failed)
	return opened(f), err
}

func (c *Chain) listSolana(ctx context.Context, since, until time.Time, reported func(Scan)) (all []Listed, err error) {
	type entry struct {
		Signature string
		BlockTime int64
		Err       json.RawMessage
	}
	from, seen, looked := c.alone(), map[string]bool{}, int64(0)
	for _, account := range svm.Accounts(c.payTo, c.asset) {
		for before := ""; ; {
			list, err := anyone(ctx, from, func(ctx context.Context, n *node) (list []entry, err error) {
				more := ""
				if before != "" {
					more = fmt.Sprintf(`,"before":%q`, before)
				}
				raw, err := n.ask(ctx, "getSignaturesForAddress", fmt.Sprintf(`[%q,{"limit":%d,"commitment":"confirmed"%s}]`,
					account.String(), listed, more), listMost)
				if err == nil && (json.Unmarshal(raw, &list) != nil || len(list) > listed) {
					err = errView
				}
				return list, err
			})
			if err != nil {
				return nil, err
			}
			for _, one := range list {
				if looked++; one.BlockTime < since.Unix() {
					break
				}
				if one.BlockTime > until.Unix() || string(one.Err) != "null" || seen[one.Signature] {
					continue
				}
				seen[one.Signature] = true
				transfers, err := anyone(ctx, from, func(ctx context.Context, n *node) ([]x402.Transfer, error) {
					return c.movedBySolana(ctx, n, one.Signature)
				})
				if err != nil {
					return nil, err
				}
				for _, t := range transfers {
					all = append(all, Listed{t, time.Unix(one.BlockTime, 0).UTC()})
				}
				if len(all) > transfersMost {
					return nil, errMany
				}
				reported(Scan{Done: looked, Found: len(all)})
			}
			if len(list) < listed || list[len(list)-1].BlockTime < since.Unix() {
				break
			}
			before = list[len(list)-1].Signature
		}
	}
	slices.Reverse(all) // oldest first, as on EVM
	return all, nil
}
