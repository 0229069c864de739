package chain

import "encoding/json"

// Lie is a fault of a node or a facilitator; empty: no fault.
type Lie string

// Lies of a node.
const (
	// Invents: payments that a facilitator was only shown are on the chain.
	Invents Lie = "invents"
	// Hides: no payment is on the chain.
	Hides Lie = "hides"
	// Inflates: payments are of ten times their amount.
	Inflates Lie = "inflates"
	// Diverts: payments went to another address.
	Diverts Lie = "diverts"
	// Stranger: the node is on another network's chain.
	Stranger Lie = "stranger"
)

// View is how a node sees its chain.
type View struct {
	Lag int64 // blocks behind
	Lie Lie
}

// A Reply is the outcome of a call; a Code other than 0 is an error with a Text.
type Reply struct {
	Result []byte
	Code   int
	Text   string
}

const (
	codeParams  = -32602
	codeReverts = 3
)

func refused(code int, text string) Reply { return Reply{Code: code, Text: text} }

func answered(v any) Reply {
	b, err := json.Marshal(v)
	if err != nil {
		return refused(-32603, "cannot write the result: "+err.Error())
	}
	return Reply{Result: b}
}

// arguments reads params that are a list, with at least so many.
func arguments(params json.RawMessage, least int) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if len(params) > 0 && json.Unmarshal(params, &list) != nil {
		return nil, false
	}
	return list, len(list) >= least
}

func textAt(list []json.RawMessage, i int) string {
	var s string
	if i < len(list) {
		_ = json.Unmarshal(list[i], &s) // of another type: no text
	}
	return s
}
