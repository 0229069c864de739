package rpc

import (
	"math/bits"
	"unicode/utf8"

	"farebox/proxy/scan"
)

// Limits of a request.
const (
	// MaxBatch is the most calls in a batch (interface.md, Limits).
	MaxBatch = 100
	// MaxDepth bounds the nesting of a request: the limit of serde_json, and so of most
	// nodes in Rust.
	MaxDepth = 128
	// MaxMethod is the longest name of a method.
	MaxMethod = 64
)

// Call is one call of a request: ranges of its body. A range without length is an absent
// member.
type Call struct {
	Method *Method // set by Resolve

	object, method, params, id span
	plain                      bool // can go upstream byte for byte but for its id
}

type span struct{ from, to int32 }

func (s span) of(body []byte) []byte { return body[s.from:s.to] }

// Request is one HTTP request: a call or a batch of calls. It keeps offsets
// into Body, and is to be pooled: Scan and Resolve allocate nothing once it
// has seen its largest batch.
type Request struct {
	Body  []byte
	Batch bool
	Calls []Call
	// Untouched says that Body may go to a node unchanged but for the ids: nothing in it is
	// ambiguous.
	Untouched bool

	fault Fault
}

// MethodName is the method of call i, only letters, digits, dots, _ and -.
func (r *Request) MethodName(i int) []byte { return r.Calls[i].method.of(r.Body) }

// ID is the id of call i as the client wrote it; 1 when it has none
// (interface.md, JSON-RPC).
func (r *Request) ID(i int) []byte {
	if c := &r.Calls[i]; c.id.to > c.id.from {
		return c.id.of(r.Body)
	}
	return defaultID
}

// Params are the params of call i as the client wrote them, nil without any.
func (r *Request) Params(i int) []byte {
	if c := &r.Calls[i]; c.params.to > c.params.from {
		return c.params.of(r.Body)
	}
	return nil
}

// Reset forgets the body.
func (r *Request) Reset() {
	clear(r.Calls)
	r.Body, r.Batch, r.Calls, r.Untouched, r.fault = nil, false, r.Calls[:0], false, Fault{}
}

// Scan reads the envelope of a body. It is strict: a member that is repeated,
// misspelt in another case or written with escapes is refused, since a node may
// take it for the one that counts. The fault is nil when all is well, and valid
// until the next Scan.
func (r *Request) Scan(body []byte) *Fault {
	r.Body, r.Batch, r.Calls, r.Untouched = body, false, r.Calls[:0], true
	if !utf8.Valid(body) {
		return r.refuse("custom", -1, "", "the request body is not valid UTF-8")
	}
	i := scan.Space(body, 0)
	if i == len(body) {
		return r.refuse("custom", -1, "",
			"the request body is empty; a JSON-RPC request or an array of 1 to 100 is expected")
	}
	switch body[i] {
	case '{':
		if i = r.call(body, i, 1); i < 0 {
			return &r.fault
		}
	case '[':
		r.Batch = true
		if i = r.batch(body, i+1); i < 0 {
			return &r.fault
		}
	default:
		return r.refuse("invalid_type", -1, "",
			"the request body must be a JSON-RPC request object or an array of them")
	}
	if i = scan.Space(body, i); i < len(body) {
		return r.syntax(i)
	}
	for i := range r.Calls {
		r.Untouched = r.Untouched && r.Calls[i].plain
	}
	return nil
}

func (r *Request) batch(body []byte, i int) int {
	if i = scan.Space(body, i); i < len(body) && body[i] == ']' {
		r.refuse("too_small", -1, "", "the batch is empty; 1 to 100 requests are expected")
		return -1
	}
	for {
		if i = scan.Space(body, i); i == len(body) {
			r.syntax(i)
			return -1
		}
		if len(r.Calls) == MaxBatch {
			r.refuse("too_big", -1, "", "the batch has more than 100 requests; 1 to 100 are expected")
			return -1
		}
		if body[i] != '{' {
			r.refuse("invalid_type", len(r.Calls), "", "every element of a batch must be a JSON-RPC request object")
			return -1
		}
		if i = r.call(body, i, 2); i < 0 {
			return -1
		}
		if i = scan.Space(body, i); i == len(body) {
			r.syntax(i)
			return -1
		}
		switch body[i] {
		case ',':
			i++
		case ']':
			return i + 1
		default:
			r.syntax(i)
			return -1
		}
	}
}

// Members of a call.
const (
	memberVersion = 1 << iota
	memberMethod
	memberParams
	memberID
	memberOther
)

// call reads one object from its brace on; depth counts it. -1: refused.
func (r *Request) call(body []byte, i, depth int) int {
	n := len(r.Calls)
	r.Calls = append(r.Calls, Call{plain: true})
	c := &r.Calls[n]
	c.object.from = int32(i)
	seen := 0
	i = scan.Space(body, i+1)
	if i < len(body) && body[i] == '}' {
		r.refuse("invalid_type", n, "method", "is required")
		return -1
	}
	for {
		if i = scan.Space(body, i); i == len(body) || body[i] != '"' {
			r.syntax(i)
			return -1
		}
		member, end := r.member(body, i+1, n)
		if end < 0 {
			return -1
		}
		if member != memberOther && seen&member != 0 {
			r.refuse("custom", n, memberNames[bits.TrailingZeros(uint(member))], "is given more than once")
			return -1
		}
		seen |= member
		if i = scan.Space(body, end); i == len(body) || body[i] != ':' {
			r.syntax(i)
			return -1
		}
		if i = scan.Space(body, i+1); i == len(body) {
			r.syntax(i)
			return -1
		}
		if i = r.value(c, n, member, body, i, depth); i < 0 {
			return -1
		}
		if i = scan.Space(body, i); i == len(body) {
			r.syntax(i)
			return -1
		}
		if body[i] == ',' {
			i++
			continue
		}
		if body[i] != '}' {
			r.syntax(i)
			return -1
		}
		break
	}
	if seen&memberMethod == 0 {
		r.refuse("invalid_type", n, "method", "is required")
		return -1
	}
	c.object.to = int32(i + 1)
	// Without version or id nodes differ, and members of their own may mean
	// something to one of them: such a call is rebuilt.
	if seen&^memberParams != memberVersion|memberMethod|memberID {
		c.plain = false
	}
	return i + 1
}

var memberNames = [...]string{"jsonrpc", "method", "params", "id"}

// member finds the member of a key; i is behind its opening quote. end is
// behind the closing one, -1: refused.
func (r *Request) member(body []byte, i, call int) (member, end int) {
	from := i
	for i < len(body) && body[i] != '"' {
		if body[i] == '\\' {
			r.refuse("custom", call, "", "the name of a member is written with an escape")
			return 0, -1
		}
		if body[i] < ' ' {
			r.syntax(i)
			return 0, -1
		}
		i++
	}
	if i == len(body) {
		r.syntax(i)
		return 0, -1
	}
	key := body[from:i]
	for m, name := range memberNames {
		if len(key) != len(name) {
			continue
		}
		if string(key) == name {
			return 1 << m, i + 1
		}
		if foldASCII(key, name) {
			r.refuse("custom", call, name, "must be written in lower case")
			return 0, -1
		}
	}
	return memberOther, i + 1
}

// value reads a member's value. -1: refused.
func (r *Request) value(c *Call, n, member int, body []byte, i, depth int) int {
	end, why := scan.Value(body, i, depth, MaxDepth)
	switch why {
	case 0:
	case scan.TooDeep:
		r.refuse("custom", n, "", "the request is nested deeper than 128 levels")
		return -1
	default:
		r.syntax(end)
		return -1
	}
	v := span{int32(i), int32(end)}
	switch member {
	case memberVersion:
		if string(v.of(body)) != `"2.0"` {
			r.refuse("invalid_enum_value", n, "jsonrpc", `must be "2.0"`)
			return -1
		}
	case memberMethod:
		c.method = span{v.from + 1, v.to - 1}
		if body[i] != '"' {
			r.refuse("invalid_type", n, "method", "must be a string")
			return -1
		}
		if !methodName(c.method.of(body)) {
			r.refuse("invalid_string", n, "method", "must be 1 to 64 letters, digits, dots, _ or -, without escapes")
			return -1
		}
	case memberParams:
		if string(v.of(body)) == "null" { // as if it were not there; some nodes refuse it
			c.plain = false
			return end
		}
		c.params = v
		if body[i] != '[' && body[i] != '{' {
			r.refuse("invalid_type", n, "params", "must be an array or an object")
			return -1
		}
	case memberID:
		c.id = v
		switch b := body[i]; {
		case b == '"' || b == 'n' || b == '-' || b-'0' <= 9:
		default:
			r.refuse("invalid_type", n, "id", "must be a string, a number or null")
			return -1
		}
	default:
		c.plain = false
	}
	return end
}

func methodName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxMethod {
		return false
	}
	for _, c := range name {
		if !methodByte[c] {
			return false
		}
	}
	return true
}

var methodByte = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") {
		t[c] = true
	}
	return t
}()

func foldASCII(p []byte, lower string) bool {
	for i, c := range p {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
