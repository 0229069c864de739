package rpc

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// cacheRule is the condition under which an answer to a method cannot change any more.
type cacheRule struct {
	class keepClass
	at    int    // keepNumber: the index of the param with the block's number
	block string // member of the result with the number of its block; may be empty
}

type keepClass uint8

const (
	keepNever  keepClass = iota
	keepConst            // always the same
	keepBlock            // of a final block, which the result names
	keepNumber           // of a final block, whose number a param names
	keepRange            // of a range of final blocks, which the first param names
)

// cacheRules are the methods whose answers may be cached. All others are not: those about
// the pool or the head, those that nodes compute differently (eth_call, estimates, traces),
// and those that are completed later (Starknet's and Solana's transactions).
var cacheRules = map[string]map[string]cacheRule{
	"evm": {
		"eth_chainId": {class: keepConst}, "net_version": {class: keepConst}, "web3_sha3": {class: keepConst},

		"eth_getTransactionByHash":              {class: keepBlock, block: "blockNumber"},
		"eth_getTransactionReceipt":             {class: keepBlock, block: "blockNumber"},
		"eth_getTransactionByBlockHashAndIndex": {class: keepBlock, block: "blockNumber"},
		"eth_getBlockByHash":                    {class: keepBlock, block: "number"},
		"eth_getHeaderByHash":                   {class: keepBlock, block: "number"},

		"eth_getBlockByNumber":                    {class: keepNumber, block: "number"},
		"eth_getHeaderByNumber":                   {class: keepNumber, block: "number"},
		"eth_getTransactionByBlockNumberAndIndex": {class: keepNumber, block: "blockNumber"},
		"eth_getBlockReceipts":                    {class: keepNumber, block: "0.blockNumber"},
		"eth_getBlockTransactionCountByNumber":    {class: keepNumber},
		"eth_getBalance":                          {class: keepNumber, at: 1},
		"eth_getCode":                             {class: keepNumber, at: 1},
		"eth_getTransactionCount":                 {class: keepNumber, at: 1},
		"eth_getStorageAt":                        {class: keepNumber, at: 2},
		"eth_getLogs":                             {class: keepRange},
	},
	"solana":   {"getGenesisHash": {class: keepConst}},
	"starknet": {"starknet_chainId": {class: keepConst}},
}

// blockAsked is the newest block that a call asks for; 0 if the result names it. ok: the
// answer may be cached if that block is final.
func (r *cacheRule) blockAsked(params []byte) (block int64, ok bool) {
	switch r.class {
	case keepConst, keepBlock:
		return 0, true
	case keepNumber:
		return quantity(element(params, r.at))
	case keepRange:
		return lastOfRange(element(params, 0))
	}
	return 0, false
}

// element is entry i of an array of strings and the like, as it is there.
func element(params []byte, i int) (raw []byte) {
	if len(params) == 0 || params[0] != '[' {
		return nil // by name: nodes differ in which names they know
	}
	n := 0
	gjson.ParseBytes(params).ForEach(func(_, v gjson.Result) bool {
		if n == i {
			raw = []byte(v.Raw)
		}
		n++
		return raw == nil
	})
	return raw
}

// lastOfRange is the last block of a filter for logs. It accepts only filters that all
// nodes read alike: known members, each once and without escapes, both ends as numbers.
func lastOfRange(filter []byte) (last int64, ok bool) {
	if len(filter) == 0 || filter[0] != '{' || bytes.IndexByte(filter, '\\') >= 0 {
		return 0, false
	}
	seen := map[string]bool{}
	first, good := int64(-1), true
	last = -1
	gjson.ParseBytes(filter).ForEach(func(k, v gjson.Result) bool {
		good = good && !seen[k.Str]
		seen[k.Str] = true
		switch k.Str {
		case "address", "topics":
		case "fromBlock":
			first, ok = quantity([]byte(v.Raw))
			good = good && ok
		case "toBlock":
			last, ok = quantity([]byte(v.Raw))
			good = good && ok
		default:
			good = false
		}
		return good
	})
	return last, good && first >= 0 && last >= first
}

// blockOf is the block that must be final for a result to be cached. asked is
// the result of blockAsked.
func (r *cacheRule) blockOf(asked int64, result []byte) (block int64, ok bool) {
	if empty(result) {
		return 0, false
	}
	if r.block == "" {
		return asked, true
	}
	block, ok = quantity(field(result, r.block))
	return block, ok && (r.class == keepBlock || block == asked)
}

// empty says that a result may only mean that the node does not know it yet.
func empty(result []byte) bool {
	switch text := string(bytes.TrimSpace(result)); text {
	case "", "null", `""`, `"0x"`:
		return true
	default:
		// Brackets without anything between them.
		return len(text) < 2 || text[0] == '[' && strings.TrimSpace(text[1:]) == "]" || text[0] == '{' &&
			strings.TrimSpace(text[1:]) == "}"
	}
}
