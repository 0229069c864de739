package chain

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/mr-tron/base58"
)

// This file serves the chain by JSON-RPC, as a node of Solana sees it.

const mostSignatures = 1000

// Call answers a method; known is false for one that is not of the ledger.
func (s *Solana) Call(method string, params json.RawMessage, v View) (r Reply, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, ok := arguments(params, 0)
	if !ok {
		return refused(codeParams, "invalid params: expected a list"), true
	}
	n := &solanaNode{s: s, head: s.slot() - v.Lag, v: v, list: list}
	answer := map[string]func() Reply{
		"getGenesisHash":          n.genesis,
		"getSlot":                 func() Reply { return answered(n.slot()) },
		"getBlockHeight":          func() Reply { return answered(n.slot()) },
		"getLatestBlockhash":      n.latest,
		"isBlockhashValid":        n.valid,
		"getTokenAccountBalance":  n.tokens,
		"getAccountInfo":          n.account,
		"getSignatureStatuses":    n.statuses,
		"getTransaction":          n.transaction,
		"getSignaturesForAddress": n.signatures,
		"sendTransaction":         n.send,
		"simulateTransaction":     n.simulate,
		"getBlockTime":            func() Reply { return answered(time.Now().Unix()) },
	}[method]
	if answer == nil {
		return Reply{}, false
	}
	return answer(), true
}

// solanaNode answers one call; under the ledger's mu.
type solanaNode struct {
	s    *Solana
	head int64
	v    View
	list []json.RawMessage
}

// options of a call, which are last.
type solanaOptions struct {
	Commitment     string
	Encoding       string
	Limit          int
	Before, Until  string
	MinContextSlot int64
}

func (n *solanaNode) options() (o solanaOptions) {
	for _, raw := range n.list {
		if len(raw) > 0 && raw[0] == '{' {
			_ = json.Unmarshal(raw, &o) // a value of another type is ignored
		}
	}
	return o
}

// slot is the newest one under the call's commitment.
func (n *solanaNode) slot() int64 {
	switch n.options().Commitment {
	case "processed":
		return n.head
	case "confirmed":
		return n.head - 1
	}
	return n.head - rootDepth
}

func (n *solanaNode) valued(value any) Reply {
	return answered(map[string]any{"context": map[string]any{"slot": n.slot(), "apiVersion": "2.3.0"}, "value": value})
}

func (n *solanaNode) genesis() Reply {
	if n.v.Lie == Stranger {
		return answered("EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG")
	}
	return answered(SolanaGenesis)
}

func (n *solanaNode) latest() Reply {
	return n.valued(map[string]any{"blockhash": blockhash(n.slot()), "lastValidBlockHeight": n.slot() + HashSlots})
}

func (n *solanaNode) valid() Reply { return n.valued(hashHolds(textAt(n.list, 0), n.slot())) }

func (n *solanaNode) tokens() Reply {
	units := strconv.FormatInt(n.s.has(textAt(n.list, 0)), 10)
	return n.valued(map[string]any{"amount": units, "decimals": 6, "uiAmountString": units})
}

// account is the mint, or a token account of it.
func (n *solanaNode) account() Reply {
	address := textAt(n.list, 0)
	mint, err := base58.Decode(n.s.o.Mint)
	if err != nil {
		return refused(codeParams, "invalid mint")
	}
	data := make([]byte, 165)
	if address == n.s.o.Mint {
		data = data[:82]
		binary.LittleEndian.PutUint64(data[36:], 1<<50)
		data[44], data[45] = 6, 1
	} else {
		copy(data, mint)
		binary.LittleEndian.PutUint64(data[64:], uint64(n.s.has(address)))
		data[108] = 1
	}
	return n.valued(map[string]any{
		"data": []string{base64.StdEncoding.EncodeToString(data), "base64"}, "owner": TokenProgram,
		"executable": false, "lamports": 2_039_280, "rentEpoch": uint64(0), "space": len(data),
	})
}

// reportedTransfers are the transfers that a node reports, oldest first.
func (n *solanaNode) reportedTransfers() []Landed {
	if n.v.Lie == Hides {
		return nil
	}
	var all []Landed
	for _, l := range n.s.order {
		if !l.Gone && l.Slot <= n.head {
			all = append(all, *l)
		}
	}
	if n.v.Lie != Invents {
		return all
	}
	for body, l := range n.s.seen {
		if m, err := readMessage(l.wire); err == nil {
			invented := sha256.Sum256([]byte(body))
			m.signatures[0] = slices.Concat(invented[:], invented[:])
			made := *l
			made.wire, made.Signature, made.Slot = m.wire(), base58.Encode(m.signatures[0]), n.head-2
			all = append(all, made)
		}
	}
	return all
}

func (n *solanaNode) find(signature string) *Landed {
	if n.v.Lie != Invents && n.v.Lie != Hides {
		if l := n.s.landed[signature]; l != nil && !l.Gone && l.Slot <= n.head {
			return l
		}
		return nil
	}
	for _, l := range n.reportedTransfers() {
		if l.Signature == signature {
			return &l
		}
	}
	return nil
}

func (n *solanaNode) commitment(slot int64) string {
	switch behind := n.head - slot; {
	case behind >= rootDepth:
		return "finalized"
	case behind >= 1:
		return "confirmed"
	}
	return "processed"
}

func (n *solanaNode) statuses() Reply {
	var asked []string
	if len(n.list) == 0 || json.Unmarshal(n.list[0], &asked) != nil {
		return refused(codeParams, "invalid params: expected signatures")
	}
	out := make([]any, len(asked))
	for i, signature := range asked {
		if l := n.find(signature); l != nil {
			out[i] = map[string]any{"slot": l.Slot, "confirmations": nil, "err": nil,
				"status": map[string]any{"Ok": nil}, "confirmationStatus": n.commitment(l.Slot)}
		}
	}
	return n.valued(out)
}

func (n *solanaNode) transaction() Reply {
	l := n.find(textAt(n.list, 0))
	if l == nil || l.Slot > n.slot() {
		return Reply{Result: []byte("null")}
	}
	units := l.Units
	if n.v.Lie == Inflates {
		units *= 10
	}
	balance := func(account string, amount int64) map[string]any {
		return map[string]any{"accountIndex": slices.Index(l.keys, account), "mint": l.mint, "programId": TokenProgram,
			"uiTokenAmount": map[string]any{"amount": strconv.FormatInt(amount, 10), "decimals": 6}}
	}
	return answered(map[string]any{
		"slot": l.Slot, "blockTime": time.Now().Unix(), "version": 0,
		"transaction": []string{base64.StdEncoding.EncodeToString(l.wire), "base64"},
		"meta": map[string]any{"err": nil, "status": map[string]any{"Ok": nil}, "fee": 10_000,
			"innerInstructions": []any{}, "logMessages": []any{}, "loadedAddresses": map[string]any{"readonly": []any{},
				"writable": []any{}},
			"preTokenBalances":  []any{balance(l.Source, Funds), balance(l.To, 0)},
			"postTokenBalances": []any{balance(l.Source, Funds-units), balance(l.To, units)}},
	})
}

func (n *solanaNode) signatures() Reply {
	address, o := textAt(n.list, 0), n.options()
	if o.Limit <= 0 || o.Limit > mostSignatures {
		o.Limit = mostSignatures
	}
	out := []any{}
	reported := n.reportedTransfers()
	passed := o.Before == ""
	for i := len(reported) - 1; i >= 0 && len(out) < o.Limit; i-- {
		l := &reported[i]
		if l.Signature == o.Until {
			break
		}
		if !passed {
			passed = l.Signature == o.Before
			continue
		}
		if l.Slot > n.slot() || !slices.Contains(l.keys, address) {
			continue
		}
		out = append(out, map[string]any{"signature": l.Signature, "slot": l.Slot, "err": nil, "memo": nil,
			"blockTime": time.Now().Unix(), "confirmationStatus": n.commitment(l.Slot)})
	}
	return answered(out)
}

func (n *solanaNode) wire() []byte {
	b, err := base64.StdEncoding.DecodeString(textAt(n.list, 0))
	if err != nil {
		return nil
	}
	return b
}

func (n *solanaNode) send() Reply {
	l, m, err := n.s.read(n.wire(), 0)
	if err != nil {
		return refused(-32002, "Transaction simulation failed: "+err.Error())
	}
	return answered(n.s.land(l, m))
}

func (n *solanaNode) simulate() Reply {
	var failed any
	if _, _, err := n.s.read(n.wire(), 1); err != nil {
		failed = err.Error()
	}
	return n.valued(map[string]any{"err": failed, "logs": []string{}, "unitsConsumed": 6_000, "accounts": nil,
		"returnData": nil})
}
