package rpc

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Meaning is the meaning of a node's error for the node and the call.
type Meaning uint8

// The meanings.
const (
	// Final is an answer: it goes to the client (reverted, no funds, bad params).
	Final Meaning = iota
	// Busy says nothing about the call: the node or its plan has no capacity, is
	// behind, or refuses the operator's key. Another node may answer.
	Busy
	// Lacking says that this node does not serve the method.
	Lacking
	// Behind says that the node does not have the requested slot yet. Another one may have;
	// since clients choose that slot, no breaker counts it.
	Behind
	// Known says that the chain has the transaction already.
	Known
	// Spent says that the nonce was used, perhaps by this very transaction.
	Spent
	// Unbatched says that the node does not take such a batch.
	Unbatched
)

// Classify reads an error object, of which a part is enough if code and message
// are in it. m is the method that was called; nil for a batch as a whole.
//
// Nodes hide their limits in answers with status 200, each service under a code of its own.
// Errors also repeat the client's text: its params, the words of a revert, the error of its
// own tracer. So a node is only busy by a code that its service uses for nothing that a
// client can cause, together with the words that belong to that code; everything else is
// the answer.
func Classify(f *Family, m *Method, object []byte) Meaning {
	if len(object) == 0 || object[0] != '{' {
		return Final
	}
	e := gjson.GetManyBytes(object, "code", "message")
	code, text := int64(0), firstWords(e[1].String())
	if e[0].Type == gjson.Number {
		code = e[0].Int()
	}
	switch {
	case code == -32601:
		return Lacking
	case f.Name == "solana":
		switch code {
		case -32005: // the node is behind the cluster
			return Busy
		case -32016: // it has not reached minContextSlot
			return Behind
		}
	case code == -32004 && strings.Contains(text, "not supported"):
		return Lacking
	case saysAny(text, limits[code]):
		return Busy
	}
	if m != nil && m.Raw && !executed(code, text) {
		for i := range resent {
			if saysAny(text, resent[i].words) {
				return resent[i].is
			}
		}
	}
	return Final
}

// limits are the codes of services for a used-up plan of the operator's, with their words.
// The codes alone mean other things elsewhere: -32005 is also the answer to a query with
// too many results.
var limits = map[int64][]string{
	429:    {"exceeded its", "rate limit", "too many requests"},                                   // Alchemy
	-32005: {"request count exceeded", "request rate limited", "rate limit", "too many requests"}, // Infura
	// QuickNode
	-32007: {"request limit reached"},
	// public nodes of Base
	-32016: {"over rate limit"},
	-32029: {"too many requests", "rate limit"}, // TheRPC
	// Ankr, LlamaRPC
	-32090: {"too many requests", "rate limit"}, -32097: {"rate-limited", "rate limit", "too many requests"},
	-32098: {"rate-limited", "rate limit", "too many requests"},
}

// resent are the words of nodes about a transaction that they have already.
var resent = [...]struct {
	is    Meaning
	words []string
}{
	{Known, []string{
		"already known", "alreadyknown", "already_exists", "known transaction", "already imported",
		"already in mempool",
		"already in the mempool", "already in pool", "already in the pool", "already been processed",
	}},
	{Spent, []string{"nonce too low", "nonce is too low", "oldnonce", "nonce has already been used",
		"doesn't have the correct nonce"}},
}

// executed says that the error is from the execution of the transaction: the contract chose
// its words. Nodes for development run a transaction as it is sent.
func executed(code int64, text string) bool {
	return code == 3 || code == -32015 || saysAny(text, []string{"revert", "vm exception", "vm execution"})
}

// firstWords is the beginning of an error's text, in lower case; the rest may
// repeat the request.
func firstWords(text string) string { return strings.ToLower(text[:min(len(text), 256)]) }

func saysAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// names says that an error is about a method by its name. Only such a -32601 is remembered
// for a node.
func names(object []byte, m *Method) bool {
	return strings.Contains(gjson.GetBytes(object, "message").Str, m.Name)
}

// ofTheNode are the statuses from 400 to 499 that concern the node, its address or the
// operator's plan, and not of the request: they are free.
var ofTheNode = []int{401, 402, 403, 404, 407, 408, 410, 421, 425, 426, 429}

// statusMeaning is the meaning of an HTTP status of a node. Refusals of the request
// itself are charged as errors (addendum 13, Upstream).
func statusMeaning(status int) Meaning {
	switch {
	case status >= 200 && status < 300:
		return Final
	case status == 413:
		return Unbatched
	case status >= 400 && status < 500 && !slices.Contains(ofTheNode, status):
		return Final
	}
	return Busy
}
