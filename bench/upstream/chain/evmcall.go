package chain

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file serves the chain by JSON-RPC, as a node sees it.

const mostLogs = 1000

// Call answers a method; known is false for one that is not of the ledger.
func (e *EVM) Call(method string, params json.RawMessage, v View) (r Reply, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	head := e.Head() - v.Lag
	switch method {
	case "eth_chainId":
		return answered(quantity(e.id(v))), true
	case "net_version":
		return answered(strconv.FormatInt(e.id(v), 10)), true
	case "eth_blockNumber":
		return answered(quantity(head)), true
	case "eth_gasPrice":
		return answered(quantity(1_000_000)), true
	case "eth_getBlockByNumber":
		return e.block(params, head), true
	case "eth_getCode":
		return e.code(params), true
	case "eth_call":
		return e.call(params, head, v), true
	case "eth_getLogs":
		return e.logs(params, head, v), true
	case "eth_getTransactionReceipt", "eth_getTransactionByHash":
		return e.transaction(method, params, head, v), true
	}
	return Reply{}, false
}

func (e *EVM) id(v View) int64 {
	if v.Lie == Stranger {
		return e.o.ID + 1
	}
	return e.o.ID
}

func quantity(n int64) string { return "0x" + strconv.FormatInt(n, 16) }

// at reads the number or the name of a block.
func at(tag string, head int64) (int64, bool) {
	switch tag {
	case "latest", "pending", "":
		return head, true
	case "safe":
		return head - safeDepth, true
	case "finalized":
		return head - finalDepth, true
	case "earliest":
		return 0, true
	}
	n, err := strconv.ParseInt(tag, 0, 64)
	return n, err == nil && strings.HasPrefix(tag, "0x")
}

func (e *EVM) block(params json.RawMessage, head int64) Reply {
	list, ok := arguments(params, 2)
	n, named := at(textAt(list, 0), head)
	if !ok || !named {
		return refused(codeParams, "invalid argument 0: expected a block")
	}
	if n > head {
		return Reply{Result: []byte("null")}
	}
	return answered(map[string]any{
		"number": quantity(n), "hash": e.hash(n), "parentHash": e.hash(n - 1), "timestamp": quantity(e.timestamp(n)),
		"transactions": []string{}, "gasLimit": "0x1c9c380", "gasUsed": "0x0", "baseFeePerGas": "0x1",
	})
}

// contractCode is that of any contract; it is never run.
const contractCode = "0x6080604052"

func (e *EVM) code(params json.RawMessage) Reply {
	list, ok := arguments(params, 1)
	if !ok {
		return refused(codeParams, "missing value for required argument 0")
	}
	address := strings.ToLower(textAt(list, 0))
	if _, ok := e.contracts[address]; ok || address == e.o.Asset {
		return answered(contractCode)
	}
	return answered("0x")
}

// call runs a function of the token or of a contract wallet.
func (e *EVM) call(params json.RawMessage, head int64, v View) Reply {
	list, ok := arguments(params, 1)
	var asked struct{ To, Data, Input string }
	if !ok || json.Unmarshal(list[0], &asked) != nil {
		return refused(codeParams, "invalid argument 0: expected a call")
	}
	block, ok := at(textAt(list, 1), head)
	if !ok || block > head {
		return refused(-32000, "header not found")
	}
	if asked.Data == "" {
		asked.Data = asked.Input
	}
	data := strings.ToLower(strings.TrimPrefix(asked.Data, "0x"))
	to := strings.ToLower(asked.To)
	if len(data) < 8 {
		return answered("0x")
	}
	if signer, ok := e.contracts[to]; ok && data[:8] == callSigned {
		return signedCall(signer, data[8:])
	}
	if to != e.o.Asset {
		return answered("0x")
	}
	return e.token(data[:8], data[8:], block, v)
}

// magic is the answer of isValidSignature for a good one.
const magic = "0x1626ba7e00000000000000000000000000000000000000000000000000000000"

// signedCall is isValidSignature(bytes32,bytes) of a contract for which a key signs.
func signedCall(signer, rest string) Reply {
	b, err := hex.DecodeString(rest)
	if err != nil || len(b) < 3*wordBytes {
		return refused(codeReverts, "execution reverted")
	}
	size := int(b[3*wordBytes-1])
	if len(b) < 3*wordBytes+size {
		return refused(codeReverts, "execution reverted")
	}
	got, err := recoverAddress(b[:wordBytes], b[3*wordBytes:3*wordBytes+size])
	if err != nil || got != signer {
		return answered("0xffffffff" + strings.Repeat("0", 56))
	}
	return answered(magic)
}

func (e *EVM) token(selector, rest string, block int64, v View) Reply {
	words := func(n int) bool { return len(rest) >= n*2*wordBytes }
	switch {
	case selector == callSeparator:
		return answered(hexOf(e.Separator()))
	case selector == callDecimals:
		return answered(hexOf(number(6)))
	case selector == callName:
		return answered(textResult(e.o.Name))
	case selector == callVersion:
		return answered(textResult(e.o.Version))
	case selector == callBalance && words(1):
		return answered(hexOf(number(e.has("0x" + rest[24:64]))))
	case selector == callState && words(2):
		key := authKey{"0x" + rest[24:64], "0x" + rest[64:128]}
		_, used := e.found(key, block, v)
		return answered(hexOf(number(map[bool]int64{true: 1}[used])))
	}
	return refused(codeReverts, "execution reverted")
}

// textResult is a string as a function returns it.
func textResult(s string) string {
	return hexOf(append(append(number(wordBytes), number(int64(len(s)))...), append([]byte(s),
		make([]byte, wordBytes-len(s)%wordBytes)...)...))
}

// found is a used authorization, as a node reports it at a block.
func (e *EVM) found(key authKey, block int64, v View) (Move, bool) {
	m := e.moves[key]
	if v.Lie == Hides {
		return Move{}, false
	}
	if m == nil || m.Gone || m.Block > block {
		a, shown := e.seen[key]
		if v.Lie != Invents || !shown {
			return Move{}, false
		}
		return Move{Authorization: a, Hash: inventedHash(key), Block: block - 1}, true
	}
	return v.twisted(*m), true
}

func (v View) twisted(m Move) Move {
	switch v.Lie {
	case Inflates:
		m.Value *= 10
	case Diverts:
		m.To = "0x" + strings.Repeat("ba", 20)
	}
	return m
}

func inventedHash(key authKey) string {
	return hexOf(keccak([]byte("invented " + key.from + key.nonce)))
}

// entries are the logs of a transaction.
func (e *EVM) entries(m *Move) []map[string]any {
	entry := func(i int, data string, topics ...string) map[string]any {
		return map[string]any{
			"address": e.o.Asset, "topics": topics, "data": data, "blockNumber": quantity(m.Block),
			"blockHash": e.hash(m.Block), "transactionHash": m.Hash, "transactionIndex": "0x1",
			"logIndex": quantity(int64(2 + i)), "removed": false,
		}
	}
	from := hexOf(word(unhex(m.From)))
	if m.Cancelled {
		return []map[string]any{entry(0, "0x", topicCancelled, from, m.Nonce)}
	}
	moved := entry(1, hexOf(number(m.Value)), topicTransfer, from, hexOf(word(unhex(m.To))))
	if m.Plain {
		return []map[string]any{moved}
	}
	return []map[string]any{entry(0, "0x", topicUsed, from, m.Nonce), moved}
}

// logFilter is the argument of eth_getLogs.
type logFilter struct {
	FromBlock, ToBlock string
	Address            json.RawMessage
	Topics             []json.RawMessage
}

func (e *EVM) logs(params json.RawMessage, head int64, v View) Reply {
	list, ok := arguments(params, 1)
	var f logFilter
	if !ok || json.Unmarshal(list[0], &f) != nil {
		return refused(codeParams, "invalid argument 0: expected a filter")
	}
	from, ok1 := at(f.FromBlock, head)
	to, ok2 := at(f.ToBlock, head)
	if !ok1 || !ok2 {
		return refused(codeParams, "invalid argument 0: expected blocks")
	}
	out := []map[string]any{}
	if len(f.Address) > 0 && !fits(f.Address, e.o.Asset) {
		return answered(out)
	}
	for _, m := range e.reportedMoves(min(to, head), v) {
		for _, entry := range e.entries(&m) {
			if m.Block >= from && f.fits(entry["topics"].([]string)) && len(out) < mostLogs {
				out = append(out, entry)
			}
		}
	}
	return answered(out)
}

// reportedMoves are all moves that a node reports, up to a block.
func (e *EVM) reportedMoves(block int64, v View) []Move {
	var all []Move
	for _, m := range e.order {
		if e.moves[authKey{m.From, m.Nonce}] != m {
			continue
		}
		if m, ok := e.found(authKey{m.From, m.Nonce}, block, v); ok {
			all = append(all, m)
		}
	}
	if v.Lie == Invents {
		for key := range e.seen {
			if m, ok := e.found(key, block, v); ok && m.Hash == inventedHash(key) {
				all = append(all, m)
			}
		}
	}
	return all
}

func (f *logFilter) fits(topics []string) bool {
	for i, want := range f.Topics {
		if i >= len(topics) || !fits(want, topics[i]) {
			return false
		}
	}
	return true
}

// fits: null fits everything, a list its entries.
func fits(want json.RawMessage, got string) bool {
	if string(want) == "null" {
		return true
	}
	var one string
	if json.Unmarshal(want, &one) == nil {
		return strings.EqualFold(one, got)
	}
	var some []string
	return json.Unmarshal(want, &some) == nil && slices.ContainsFunc(some,
		func(s string) bool { return strings.EqualFold(s, got) })
}

func (e *EVM) transaction(method string, params json.RawMessage, head int64, v View) Reply {
	list, ok := arguments(params, 1)
	if !ok {
		return refused(codeParams, "missing value for required argument 0")
	}
	hash := textAt(list, 0)
	var reported []Move
	if m := e.byHash[hash]; m != nil && v.Lie != Invents {
		if m, ok := e.found(authKey{m.From, m.Nonce}, head, v); ok {
			reported = []Move{m}
		}
	} else if v.Lie == Invents {
		reported = e.reportedMoves(head, v)
	}
	for _, m := range reported {
		if m.Hash != hash {
			continue
		}
		if method == "eth_getTransactionByHash" {
			return answered(map[string]any{
				"hash": m.Hash, "blockNumber": quantity(m.Block), "blockHash": e.hash(m.Block), "to": e.o.Asset,
				"from": facilitatorAddress, "input": "0xe3ee160e", "value": "0x0", "nonce": "0x1", "type": "0x2",
			})
		}
		return answered(map[string]any{
			"transactionHash": m.Hash, "blockNumber": quantity(m.Block), "blockHash": e.hash(m.Block),
			"status": "0x1", "to": e.o.Asset, "from": facilitatorAddress, "logs": e.entries(&m), "gasUsed": "0x15f90",
			"transactionIndex": "0x1", "contractAddress": nil, "type": "0x2",
		})
	}
	return Reply{Result: []byte("null")}
}

// facilitatorAddress is the sender of transactions.
var facilitatorAddress = fmt.Sprintf("0x%040x", 0xfac111)
