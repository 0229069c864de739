package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
)

const (
	// transfersMost bounds a list of transfers.
	transfersMost = 10_000
	// transferLogs bounds the logs of one question, in bytes.
	transferLogs = 4 << 20
)

// ErrNoTransfer is for a transaction that moved nothing to pay_to.
var ErrNoTransfer = errors.New("the chain has no such transaction that moved the token to pay_to")

// Listed is a transfer with its time.
type Listed struct {
	x402.Transfer
	Time time.Time
}

// Scan is the progress of a list.
type Scan struct {
	Done, All int64 // blocks; on Solana signatures, whose number is not known
	Found     int
}

// Transfers lists the transfers to pay_to between two times, by the first node that
// answers: to credit one of these, ask the witnesses about it.
func (c *Chain) Transfers(ctx context.Context, since, until time.Time, reported func(Scan)) ([]Listed, error) {
	if c.evm() {
		return c.listEVM(ctx, since, until, reported)
	}
	return c.listSolana(ctx, since, until, reported)
}

// TransfersOf are the transfers of a transaction, by all witnesses.
func (c *Chain) TransfersOf(ctx context.Context, transaction string) ([]x402.Transfer, error) {
	look := c.movedBySolana
	if c.evm() {
		if _, ok := evm.ParseWord(transaction); !ok {
			return nil, errors.New("this is not a transaction hash; expected 0x and 64 hexadecimal digits")
		}
		look = c.movedBy
	}
	views, err := agreed(ctx, c.witnesses, func(ctx context.Context, n *node) ([]x402.Transfer, error) {
		return look(ctx, n, strings.TrimSpace(transaction))
	}, slices.Equal)
	switch {
	case err != nil:
		return nil, err
	case len(views[0]) == 0:
		return nil, ErrNoTransfer
	}
	return views[0], nil
}

// anyone gives the first answer of a node.
func anyone[T any](ctx context.Context, w *witnesses, ask func(context.Context, *node) (T, error)) (answer T, err error) {
	views, err := agreed(ctx, w, ask, func(a, b T) bool { return true })
	if err != nil {
		return answer, err
	}
	return views[0], nil
}

// movedBy are the transfers of a transaction on EVM.
func (c *Chain) movedBy(ctx context.Context, n *node, hash string) ([]x402.Transfer, error) {
	hash = strings.ToLower(hash)
	r, err := receiptOf(ctx, n, hash)
	if err != nil || r == nil || r.Status != "0x1" {
		return nil, err
	}
	return r.transfers(hash, c.asset, c.payTo), nil
}

// transfers are those of a token to an address.
func (tr *transactionReceipt) transfers(hash string, asset, payTo wallet.Address) (list []x402.Transfer) {
	for i := range tr.Logs {
		l := &tr.Logs[i]
		from, ok := l.from(asset, payTo)
		value, whole := evm.ParseWord(l.Data)
		units, fits := evm.WordNumber(value).Int()
		if !ok || !whole || !fits || units <= 0 || from == payTo {
			continue
		}
		t := x402.Transfer{Transaction: hash, Index: i, Block: tr.block, From: from.String(), Units: units}
		if i > 0 {
			t.Nonce = tr.Logs[i-1].nonce(asset, from, l)
		}
		list = append(list, t)
	}
	return list
}

// from is the sender of a transfer to an address.
func (l *eventLog) from(asset, to wallet.Address) (from wallet.Address, ok bool) {
	if len(l.Topics) != 3 {
		return from, false
	}
	who, ok := evm.ParseWord(l.Topics[1])
	from = wallet.EVMAddress([20]byte(who[12:]))
	return from, ok && l.is(asset, evm.Transfer, evm.Topic(from), evm.Topic(to))
}

// nonce is that of the authorization which made the transfer behind its log; empty: it is
// another log.
func (l *eventLog) nonce(asset, from wallet.Address, behind *eventLog) string {
	if len(l.Topics) != 3 {
		return ""
	}
	nonce, ok := evm.ParseWord(l.Topics[2])
	first, good := number(l.LogIndex)
	second, fits := number(behind.LogIndex)
	if !ok || !good || !fits || second != first+1 || !l.is(asset, evm.AuthorizationUsed, evm.Topic(from), nonce) {
		return ""
	}
	return evm.Hex(nonce[:])
}

// ends are the token and the receiver of an order, which the config may have changed since.
func ends(o *x402.Order) (asset, payTo wallet.Address, err error) {
	if asset, err = wallet.ParseAddress(o.Asset); err == nil {
		payTo, err = wallet.ParseAddress(o.PayTo)
	}
	return asset, payTo, err
}

// findMoved is Find at one node for a transfer without a signature for us.
func (c *Chain) findMoved(ctx context.Context, n *node, o *x402.Order, _ string) (paymentState, error) {
	asset, payTo, err := ends(o)
	if err != nil {
		return paymentState{}, err
	}
	s := &search{Chain: c, node: n}
	if s.head, _, err = c.block(ctx, n, "latest"); err != nil {
		return paymentState{}, err
	}
	r, err := receiptOf(ctx, n, o.Moved.Transaction)
	switch {
	case err != nil:
		return paymentState{}, err
	case r == nil || r.block > s.head:
		return paymentState{is: onchain.Open}, nil
	case r.Status == "0x1":
		for _, t := range r.transfers(o.Moved.Transaction, asset, payTo) {
			if t.Index == o.Moved.Index && t.Units == o.Units && t.From == o.Payer {
				depth := s.depth(r.block)
				return paymentState{is: onchain.Paid, transaction: t.Transaction, block: r.block,
					settled: depth >= c.confirmations, final: depth >= c.finalDepth}, nil
			}
		}
	}
	return s.spent(reasonElsewhere, r.block), nil
}

// lister lists transfers block by block.
type lister struct {
	*Chain
	from   *witnesses
	times  map[int64]time.Time // of blocks
	listed []Listed
}

func (c *Chain) listEVM(ctx context.Context, since, until time.Time, reported func(Scan)) ([]Listed, error) {
	s := &lister{Chain: c, from: c.alone(), times: map[int64]time.Time{}}
	blocks, err := anyone(ctx, s.from, func(ctx context.Context, n *node) (b [2]int64, err error) {
		head, unix, err := c.block(ctx, n, "latest")
		if err == nil {
			b[0], err = c.blockAt(ctx, n, since.Unix(), head, unix)
		}
		if err == nil {
			b[1], err = c.blockAt(ctx, n, until.Unix(), head, unix)
		}
		return b, err
	})
	if err != nil {
		return nil, err
	}
	wide := int64(span)
	for first := blocks[0]; first <= blocks[1]; {
		last := min(blocks[1], first+wide-1)
		hashes, err := anyone(ctx, s.from, func(ctx context.Context, n *node) ([]string, error) {
			return c.moving(ctx, n, first, last)
		})
		switch {
		case err != nil && (wide == 1 || ctx.Err() != nil):
			return nil, err
		case err != nil: // it is more than nodes give at once
			wide = max(1, wide/spanShrink)
			continue
		}
		if err := s.add(ctx, hashes); err != nil {
			return nil, err
		}
		first = last + 1
		reported(Scan{first - blocks[0], blocks[1] - blocks[0] + 1, len(s.listed)})
	}
	return s.listed, nil
}

// moving are the transactions of some blocks that moved the token to pay_to.
func (c *Chain) moving(ctx context.Context, n *node, first, last int64) (hashes []string, err error) {
	to := evm.Topic(c.payTo)
	list, err := logsOf(ctx, n, c.asset, first, last, fmt.Sprintf(`[%q,null,%q]`, evm.Hex(evm.Transfer[:]),
		evm.Hex(to[:])), transferLogs)
	if err != nil {
		return nil, err
	}
	for i := range list {
		block, ok := number(list[i].BlockNumber)
		_, hash := evm.ParseWord(list[i].TransactionHash)
		if _, is := list[i].from(c.asset, c.payTo); !is || !ok || !hash || block < first || block > last {
			return nil, errView
		}
		if h := strings.ToLower(list[i].TransactionHash); !slices.Contains(hashes, h) {
			hashes = append(hashes, h)
		}
	}
	return hashes, nil
}

// add lists the transfers of transactions.
func (s *lister) add(ctx context.Context, hashes []string) error {
	for _, hash := range hashes {
		list, err := anyone(ctx, s.from, func(ctx context.Context, n *node) ([]x402.Transfer, error) {
			return s.movedBy(ctx, n, hash)
		})
		if err != nil {
			return err
		}
		for _, t := range list {
			at, known := s.times[t.Block]
			if !known {
				unix, err := anyone(ctx, s.from, func(ctx context.Context, n *node) (int64, error) {
					_, unix, err := s.block(ctx, n, hex(t.Block))
					return unix, err
				})
				if err != nil {
					return err
				}
				at = time.Unix(unix, 0).UTC()
				s.times[t.Block] = at
			}
			s.listed = append(s.listed, Listed{t, at})
		}
		if len(s.listed) > transfersMost {
			return errMany
		}
	}
	return nil
}

var errMany = fmt.Errorf("there are more than %d transfers in that time; expected a shorter one", transfersMost)
