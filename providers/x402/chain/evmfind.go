package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
)

const (
	// backlog is how many blocks before the submission are searched as well:
	// the chain may be reorganised a little.
	backlog = 16
	// span is how many blocks a node is asked for logs at once at first. Services
	// limit it to anything from 5 to 10,000.
	span = 500
	// spanShrink is the divisor of a span that a node refuses.
	spanShrink = 8
	// searches bounds the questions of one search.
	searches = 64
	// logsMany bounds the logs of one answer.
	logsMany = 8192
)

// Reasons of payments that never will be paid.
const (
	reasonCanceled  = "authorization_canceled"
	reasonElsewhere = "authorization_used_otherwise"
	reasonExpired   = "authorization_expired"
)

// eventLog is a log entry of a contract.
type eventLog struct {
	Address         string   `json:"address"`
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	BlockNumber     string   `json:"blockNumber"`
	TransactionHash string   `json:"transactionHash"`
	LogIndex        string   `json:"logIndex"`
	Removed         bool     `json:"removed"`
}

// eventLogs are read one by one: an answer of brackets alone must not become many times
// its size in memory.
type eventLogs []eventLog

// UnmarshalJSON is json.Unmarshaler.
func (e *eventLogs) UnmarshalJSON(text []byte) (err error) {
	array := gjson.ParseBytes(text)
	if !array.IsArray() {
		return errView
	}
	array.ForEach(func(_, one gjson.Result) bool {
		var l eventLog
		if err = json.Unmarshal([]byte(one.Raw), &l); err == nil && len(*e) == logsMany {
			err = errView
		}
		*e = append(*e, l)
		return err == nil
	})
	return err
}

// is says that the log is of that kind and those topics.
func (l *eventLog) is(asset wallet.Address, topics ...evm.Word) bool {
	if !strings.EqualFold(l.Address, asset.String()) || l.Removed || len(l.Topics) != len(topics) {
		return false
	}
	for i, topic := range topics {
		if got, ok := evm.ParseWord(l.Topics[i]); !ok || got != topic {
			return false
		}
	}
	return true
}

// findEVM is Find at one node: whether the nonce is used decides the search.
func (c *Chain) findEVM(ctx context.Context, n *node, o *x402.Order, hint string) (paymentState, error) {
	a, _, _, asset, err := parts(o)
	if err != nil {
		return paymentState{}, err
	}
	s := &search{Chain: c, node: n, asset: asset, a: &a, units: o.Units}
	var unix int64
	if s.head, unix, err = c.block(ctx, n, "latest"); err != nil {
		return paymentState{}, err
	}
	used, err := soon(ctx, func() (bool, error) { return c.used(ctx, n, asset, &a, s.head) })
	if err != nil {
		return paymentState{}, err
	}
	if !used {
		return s.unused(ctx, unix)
	}
	if _, ok := evm.ParseWord(hint); ok {
		if f, err := s.receipt(ctx, strings.ToLower(hint)); err == nil {
			return f, nil
		}
	}
	last := s.head
	if over(&a, unix) { // it was used before that time
		until, _ := a.ValidBefore.Int()
		if at, err := c.blockAt(ctx, n, until, s.head, unix); err == nil {
			last = at
		}
	}
	l, err := s.log(ctx, max(0, o.Since-backlog), last)
	if errors.Is(err, errNothing) && o.Past {
		return s.spent(reasonElsewhere, 0), nil // long before
	}
	if err != nil {
		return paymentState{}, err
	}
	if l.is(asset, evm.AuthorizationCanceled, evm.Topic(a.From), a.Nonce) {
		block, ok := number(l.BlockNumber)
		if !ok {
			return paymentState{}, errView
		}
		return s.spent(reasonCanceled, block), nil
	}
	return s.receipt(ctx, strings.ToLower(l.TransactionHash))
}

// search is for one authorization at one node.
type search struct {
	*Chain
	*node
	asset wallet.Address
	a     *evm.Authorization
	units int64
	head  int64
	asked int
}

// unused is the state of a nonce that is not used up: over, once a block that is deep
// enough is too late for it.
func (s *search) unused(ctx context.Context, unix int64) (paymentState, error) {
	if !over(s.a, unix) {
		return paymentState{is: onchain.Open}, nil
	}
	_, unix, err := s.block(ctx, s.node, hex(max(0, s.head-s.finalDepth)))
	if err != nil || !over(s.a, unix) {
		return paymentState{is: onchain.Open}, err
	}
	return paymentState{is: onchain.Over, reason: reasonExpired, settled: true, final: true}, nil
}

// spent is the state of a nonce that was used for something else. It is open for as long as
// the chain may be reorganised.
func (s *search) spent(reason string, block int64) paymentState {
	if s.depth(block) < s.finalDepth {
		return paymentState{is: onchain.Open}
	}
	return paymentState{is: onchain.Spent, reason: reason, block: block, settled: true, final: true}
}

// depth counts the block itself.
func (s *search) depth(block int64) int64 { return s.head - block + 1 }

// transactionReceipt is the receipt of a transaction.
type transactionReceipt struct {
	TransactionHash, BlockNumber, Status string
	Logs                                 eventLogs
	block                                int64
}

// receiptOf asks for a transaction; nil: the chain does not have it.
func receiptOf(ctx context.Context, n *node, hash string) (*transactionReceipt, error) {
	raw, err := n.ask(ctx, "eth_getTransactionReceipt", fmt.Sprintf(`[%q]`, hash), receiptMost)
	if err != nil {
		return nil, err
	}
	var r *transactionReceipt
	if json.Unmarshal(raw, &r) != nil {
		return nil, errView
	}
	if r == nil {
		return nil, nil
	}
	var ok bool
	if r.block, ok = number(r.BlockNumber); !ok || !strings.EqualFold(r.TransactionHash, hash) {
		return nil, errView
	}
	return r, nil
}

// receipt is the effect of a transaction on the nonce. An error says that it is not the
// one which used it.
//
// The token logs AuthorizationUsed and then, at once, the transfer that it was used
// for. Only that one counts: a transaction may hold another authorization's transfer
// of the same amount, which pays for that one.
func (s *search) receipt(ctx context.Context, hash string) (paymentState, error) {
	r, err := receiptOf(ctx, s.node, hash)
	if err != nil {
		return paymentState{}, err
	}
	if r == nil || r.Status != "0x1" || r.block > s.head {
		return paymentState{}, errView
	}
	block, used := r.block, -1
	for i := range r.Logs {
		if r.Logs[i].is(s.asset, evm.AuthorizationUsed, evm.Topic(s.a.From), s.a.Nonce) {
			used = i
		}
	}
	if used < 0 {
		return paymentState{}, errView
	}
	if !s.pays(r.Logs[used:]) {
		return s.spent(reasonElsewhere, block), nil
	}
	depth := s.depth(block)
	return paymentState{is: onchain.Paid, transaction: hash, block: block, settled: depth >= s.confirmations,
		final: depth >= s.finalDepth}, nil
}

// pays says that the log behind the first is the transfer that was signed.
func (s *search) pays(logs []eventLog) bool {
	if len(logs) < 2 || !logs[1].is(s.asset, evm.Transfer, evm.Topic(s.a.From), evm.Topic(s.a.To)) {
		return false
	}
	first, ok := number(logs[0].LogIndex)
	second, fits := number(logs[1].LogIndex)
	value, whole := evm.ParseWord(logs[1].Data)
	return ok && fits && whole && second == first+1 && value == s.a.Value.Word()
}

var errTooFar = errors.New("it cannot be searched as far back as the payment may be")

// errNothing is for a nonce that is used, without an event that shows the use.
var errNothing = fmt.Errorf("%w: no event shows the use of the nonce", errView)

// log finds the event that used the nonce, between two blocks. Most payments are recent, so
// that one question is enough; a longer span, or one that is too much for the node, is
// narrowed by the states of old blocks where it has them.
func (s *search) log(ctx context.Context, from, last int64) (*eventLog, error) {
	low, high := s.narrow(ctx, from-1, last, span)
	wide := int64(span)
	if high-low <= span {
		l, err := s.logs(ctx, low+1, high)
		if l != nil || ctx.Err() != nil {
			return l, err
		}
		if err == nil {
			return nil, errNothing
		}
		low, high = s.narrow(ctx, low, high, 1)
		wide = max(1, (high-low)/spanShrink)
	}
	return s.backwards(ctx, low, high, wide)
}

// backwards searches blocks from the newest on, as many at once as the node gives.
func (s *search) backwards(ctx context.Context, low, high, wide int64) (*eventLog, error) {
	for high > low {
		if s.asked++; s.asked > searches {
			return nil, errTooFar
		}
		first := max(low+1, high-wide+1)
		l, err := s.logs(ctx, first, high)
		switch {
		case l != nil:
			return l, nil
		case err != nil && wide == 1, ctx.Err() != nil:
			return nil, err
		case err != nil:
			wide = max(1, wide/spanShrink)
		default:
			high = first - 1
		}
	}
	return nil, errNothing
}

// narrow halves the blocks in which the nonce can have been used until they are few,
// for as long as the node has the states of old ones. low is one in which it was not.
func (s *search) narrow(ctx context.Context, low, high, few int64) (int64, int64) {
	for high-low > few && s.asked < searches/2 {
		s.asked++
		middle := low + (high-low)/2
		used, err := s.used(ctx, s.node, s.asset, s.a, middle)
		if err != nil {
			break
		}
		if used {
			high = middle
		} else {
			low = middle
		}
	}
	return low, high
}

// logsOf asks for a contract's logs in some blocks.
func logsOf(ctx context.Context, n *node, contract wallet.Address, first, last int64, topics string, most int) (
	list eventLogs, err error) {
	raw, err := n.ask(ctx, "eth_getLogs", fmt.Sprintf(`[{"address":%q,"fromBlock":%q,"toBlock":%q,"topics":%s}]`,
		contract.String(), hex(first), hex(last), topics), most)
	if err == nil && json.Unmarshal(raw, &list) != nil {
		err = errView
	}
	return list, err
}

// logs asks for the log of the nonce in some blocks; nil if absent.
func (s *search) logs(ctx context.Context, first, last int64) (*eventLog, error) {
	from := evm.Topic(s.a.From)
	list, err := logsOf(ctx, s.node, s.asset, first, last, fmt.Sprintf(`[[%q,%q],%q,%q]`,
		evm.Hex(evm.AuthorizationUsed[:]), evm.Hex(evm.AuthorizationCanceled[:]), evm.Hex(from[:]),
		evm.Hex(s.a.Nonce[:])), logsMost)
	if err != nil {
		return nil, err
	}
	for i := range list {
		l := &list[i]
		block, ok := number(l.BlockNumber)
		if (l.is(s.asset, evm.AuthorizationUsed, from, s.a.Nonce) ||
			l.is(s.asset, evm.AuthorizationCanceled, from, s.a.Nonce)) && ok && block >= first && block <= last {
			return l, nil
		}
	}
	return nil, nil
}
