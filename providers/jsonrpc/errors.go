package jsonrpc

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Meaning is what a node's error says about the node and the call.
type Meaning uint8

// The meanings.
const (
	// Final is an answer: it goes to the client (reverted, no funds, bad params).
	Final Meaning = iota
	// Busy says nothing of the call: the node or its plan has no capacity, is
	// behind, or refuses the operator's key. Another node may answer.
	Busy
	// Lacking says that this node does not serve the method.
	Lacking
	// Known says that a transaction was taken before: it is where it should be.
	Known
	// Spent says that the nonce was used, perhaps by this very transaction.
	Spent
	// Unbatched says that the node does not take such a batch.
	Unbatched
)

// Classify reads an error object, of which a part is enough if code and
// message are in it. Nodes hide their limits in answers with status 200, each
// service under a code of its own, and the same code is an answer elsewhere.
func Classify(f *Family, object []byte) Meaning {
	if len(object) == 0 || object[0] != '{' {
		return byText(string(bytes.ToLower(object)), 0)
	}
	e := gjson.GetManyBytes(object, "code", "message")
	code, text := e[0].Int(), strings.ToLower(e[1].String())
	switch {
	case code == 3 || strings.Contains(text, "execution reverted"):
		return Final
	case code == 429:
		return Busy
	case f.Name == "solana":
		switch code {
		case -32005, -32016: // behind; has not reached the slot asked for
			return Busy
		case -32601:
			return Lacking
		}
		if strings.Contains(text, "already been processed") {
			return Known
		}
		return byText(text, 0)
	}
	switch code {
	case -32601:
		return Lacking
	case -32004:
		return Lacking
	case -32005, -32007, -32016, -32029, -32090, -32097, -32098:
		// -32005 is also what Infura says to a query with too many results.
		if strings.Contains(text, "returned more than") || strings.Contains(text, "block range") || strings.Contains(text, "try with this") {
			return Final
		}
		return Busy
	}
	return byText(text, code)
}

// phrase is a piece of an error's text that tells its meaning.
type phrase struct {
	text string
	is   Meaning
}

var phrases = []phrase{
	{"already known", Known},
	{"alreadyknown", Known},
	{"already_exists", Known},
	{"known transaction", Known},
	{"already imported", Known},
	{"already in mempool", Known},
	{"already in the mempool", Known},
	{"already in pool", Known},
	{"already in the pool", Known},
	{"nonce too low", Spent},
	{"nonce is too low", Spent},
	{"oldnonce", Spent},
	{"nonce has already been used", Spent},
	{"batch too large", Unbatched},
	{"batch size", Unbatched},
	{"batch limit", Unbatched},
	{"batch requests", Unbatched},
	{"batch request", Unbatched},
	{"batching is not", Unbatched},
	{"rate limit", Busy},
	{"rate-limit", Busy},
	{"ratelimit", Busy},
	{"too many requests", Busy},
	{"request limit reached", Busy},
	{"requests per second", Busy},
	{"compute units per second", Busy},
	{"capacity exceeded", Busy},
	{"exceeded its", Busy},
	{"exceeded your", Busy},
	{"quota", Busy},
	{"request count exceeded", Busy},
	{"usage limit", Busy},
	{"throttled", Busy},
	{"temporarily unavailable", Busy},
	{"service unavailable", Busy},
	{"no available upstream", Busy},
	{"unauthorized", Busy},
	{"invalid api key", Busy},
	{"method not found", Lacking},
	{"method not supported", Lacking},
}

func byText(text string, code int64) Meaning {
	if len(text) > 512 {
		text = text[:512]
	}
	for _, p := range phrases {
		if strings.Contains(text, p.text) {
			if p.is == Lacking && code != 0 && code != -32600 && code != -32000 {
				continue
			}
			return p.is
		}
	}
	return Final
}

// ofTheNode are the statuses from 400 to 499 that speak of the node, its address
// or the operator's plan, and not of the request: nobody pays for them.
var ofTheNode = []int{401, 402, 403, 404, 407, 408, 410, 421, 425, 426, 429}

// statusMeaning is what an HTTP status of a node says. Refusals of the request
// itself cost what an error costs (addendum 13, Upstream).
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
