package jsonrpc

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// Limits of a request.
const (
	// MaxBatch is the most calls in a batch (interface.md, Limits).
	MaxBatch = 100
	// MaxDepth is how deep a request may be nested: what serde_json, and so
	// most nodes in Rust, read at most.
	MaxDepth = 128
	// MaxMethod is the longest name of a method.
	MaxMethod = 64
	// maxPlainID is the longest text id that goes upstream as it is.
	maxPlainID = 128
)

// Call is one call of a request: ranges of its body. A range without length is
// a member that is not there.
type Call struct {
	Method *Method // set by Resolve

	object, method, params, id span
	plain                      bool  // can go upstream byte for byte
	number                     int64 // of a plain id that is a number, else -1
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
	// Untouched says that Body may go to a node as it came: nothing in it can
	// be read in two ways, and nodes give its ids back byte for byte.
	Untouched bool

	fault Fault
}

// Fault is why a request is refused.
type Fault struct {
	Code string // as in a validation issue: custom, invalid_type, too_big …
	Path string // method, 3.method; empty: the body itself
	Text string
}

func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
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

var defaultID = []byte("1")

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
	i := skipSpace(body, 0)
	if i == len(body) {
		return r.refuse("custom", -1, "", "the request body is empty; a JSON-RPC request or an array of 1 to 100 is expected")
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
		return r.refuse("invalid_type", -1, "", "the request body must be a JSON-RPC request object or an array of them")
	}
	if i = skipSpace(body, i); i < len(body) {
		return r.syntax(i)
	}
	for i := range r.Calls {
		r.Untouched = r.Untouched && r.Calls[i].plain
	}
	r.Untouched = r.Untouched && r.distinct()
	return nil
}

func (r *Request) batch(body []byte, i int) int {
	if i = skipSpace(body, i); i < len(body) && body[i] == ']' {
		r.refuse("too_small", -1, "", "the batch is empty; 1 to 100 requests are expected")
		return -1
	}
	for {
		if i = skipSpace(body, i); i == len(body) {
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
		if i = skipSpace(body, i); i == len(body) {
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
	r.Calls = append(r.Calls, Call{number: -1, plain: true})
	c := &r.Calls[n]
	c.object.from = int32(i)
	seen := 0
	i = skipSpace(body, i+1)
	if i < len(body) && body[i] == '}' {
		r.refuse("invalid_type", n, "method", "is required")
		return -1
	}
	for {
		if i = skipSpace(body, i); i == len(body) || body[i] != '"' {
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
		if i = skipSpace(body, end); i == len(body) || body[i] != ':' {
			r.syntax(i)
			return -1
		}
		if i = skipSpace(body, i+1); i == len(body) {
			r.syntax(i)
			return -1
		}
		if i = r.value(c, n, member, body, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(body, i); i == len(body) {
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

// member tells which member a key is; i is behind its opening quote. end is
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
	end, why := skipStrict(body, i, depth)
	if why != fine {
		switch why {
		case tooDeep:
			r.refuse("custom", n, "", "the request is nested deeper than 128 levels")
		default:
			r.syntax(end)
		}
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
		if c.number = canonical(v.of(body)); c.number < 0 && !plainText(v.of(body)) {
			c.plain = false
		}
	default:
		c.plain = false
	}
	return end
}

// canonical is the value of a number that every node gives back byte for byte:
// an integer without sign below 2^53. -1: it is none.
func canonical(id []byte) int64 {
	if len(id) == 0 || len(id) > 16 || id[0] == '0' && len(id) > 1 {
		return -1
	}
	n := int64(0)
	for _, c := range id {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	if n >= 1<<53 {
		return -1
	}
	return n
}

// plainText says that a string id survives every node: printable ASCII without
// escapes, and without < > &, which encoders in Go write as escapes.
func plainText(id []byte) bool {
	if len(id) < 2 || len(id) > maxPlainID+2 || id[0] != '"' {
		return false
	}
	for _, c := range id[1 : len(id)-1] {
		if c < ' ' || c > '~' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
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

var idSeed = maphash.MakeSeed()

// distinct says that no two calls have the same id. Clients mostly count up.
func (r *Request) distinct() bool {
	if len(r.Calls) < 2 || !r.Untouched {
		return true
	}
	last, rising := int64(-1), true
	for i := range r.Calls {
		n := r.Calls[i].number
		if n <= last {
			rising = false
			break
		}
		last = n
	}
	if rising {
		return true
	}
	const slots = 256 // a power of two above twice MaxBatch
	var table [slots]uint8
	for i := range r.Calls {
		id := r.ID(i)
		for at := maphash.Bytes(idSeed, id) % slots; ; at = (at + 1) % slots {
			if table[at] == 0 {
				table[at] = uint8(i + 1)
				break
			}
			if string(r.ID(int(table[at]-1))) == string(id) {
				return false
			}
		}
	}
	return true
}

func (r *Request) refuse(code string, call int, member, text string) *Fault {
	path := member
	if r.Batch && call >= 0 {
		if path = strconv.Itoa(call); member != "" {
			path += "." + member
		}
	}
	r.fault = Fault{Code: code, Path: path, Text: text}
	return &r.fault
}

func (r *Request) syntax(at int) *Fault {
	if at >= len(r.Body) {
		return r.refuse("custom", -1, "", "the request body ends before the JSON does")
	}
	return r.refuse("custom", -1, "", "the request body is not valid JSON (at byte "+strconv.Itoa(at)+")")
}

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

// why a value is refused.
type why uint8

const (
	fine why = iota
	broken
	tooDeep
)

// skipStrict goes over one value by the whole grammar of RFC 8259, without
// recursion: what it lets pass every node's parser reads alike.
func skipStrict(body []byte, i, depth int) (int, why) {
	var objects [MaxDepth / 64]uint64
	var object bool
	open := 0
value:
	switch c := body[i]; c {
	case '{', '[':
		if depth+open >= MaxDepth {
			return i, tooDeep
		}
		if c == '{' {
			objects[open>>6] |= 1 << (open & 63)
		} else {
			objects[open>>6] &^= 1 << (open & 63)
		}
		open++
		if i = skipSpace(body, i+1); i == len(body) {
			return i, broken
		}
		if body[i] == c+2 { // } is { + 2, ] is [ + 2
			i++
			open--
			break
		}
		if c == '{' {
			goto key
		}
		goto value
	case '"':
		if i = skipString(body, i+1); i < 0 {
			return -i, broken
		}
	case 't':
		if i = skipWord(body, i, "true"); i < 0 {
			return -i, broken
		}
	case 'f':
		if i = skipWord(body, i, "false"); i < 0 {
			return -i, broken
		}
	case 'n':
		if i = skipWord(body, i, "null"); i < 0 {
			return -i, broken
		}
	default:
		if i = skipNumber(body, i); i < 0 {
			return -i, broken
		}
	}
after:
	if open == 0 {
		return i, fine
	}
	if i = skipSpace(body, i); i == len(body) {
		return i, broken
	}
	object = objects[(open-1)>>6]&(1<<((open-1)&63)) != 0
	switch c := body[i]; {
	case c == ',':
		if i = skipSpace(body, i+1); i == len(body) {
			return i, broken
		}
		if !object {
			goto value
		}
	case c == '}' && object, c == ']' && !object:
		i++
		open--
		goto after
	default:
		return i, broken
	}
key:
	if body[i] != '"' {
		return i, broken
	}
	if i = skipString(body, i+1); i < 0 {
		return -i, broken
	}
	if i = skipSpace(body, i); i == len(body) || body[i] != ':' {
		return i, broken
	}
	if i = skipSpace(body, i+1); i == len(body) {
		return i, broken
	}
	goto value
}

// skipString gives the offset behind the closing quote of a string whose text
// begins at i; -offset of what is wrong.
func skipString(body []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for {
		for i+8 <= len(body) {
			x := binary.LittleEndian.Uint64(body[i:])
			q, s := x^ones*'"', x^ones*'\\'
			// Bytes above 0x7f show neither: they are UTF-8, which was checked.
			m := ((x - ones*' ') | (q - ones) | (s - ones)) &^ x & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(body) && body[i] != '"' && body[i] != '\\' && body[i] >= ' ' {
			i++
		}
		if i == len(body) || body[i] < ' ' {
			return -i
		}
		if body[i] == '"' {
			return i + 1
		}
		if i+1 == len(body) {
			return -(i + 1)
		}
		switch body[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(body) {
				return -len(body)
			}
			for _, h := range body[i+2 : i+6] {
				if h-'0' > 9 && (h|0x20)-'a' > 5 {
					return -(i + 2)
				}
			}
			i += 6
		default:
			return -(i + 1)
		}
	}
}

func skipWord(body []byte, i int, word string) int {
	if len(body)-i < len(word) {
		return -len(body)
	}
	if string(body[i:i+len(word)]) != word {
		return -i
	}
	return i + len(word)
}

func skipNumber(body []byte, i int) int {
	at := i
	if body[i] == '-' {
		i++
	}
	from := i
	i = skipDigits(body, i)
	if i == from || body[from] == '0' && i > from+1 {
		return -max(at, 1)
	}
	if i < len(body) && body[i] == '.' {
		if from, i = i+1, skipDigits(body, i+1); i == from {
			return -i
		}
	}
	if i < len(body) && body[i]|0x20 == 'e' {
		i++
		if i < len(body) && (body[i] == '+' || body[i] == '-') {
			i++
		}
		if from, i = i, skipDigits(body, i); i == from {
			return -i
		}
	}
	return i
}

func skipDigits(body []byte, i int) int {
	for i < len(body) && body[i]-'0' <= 9 {
		i++
	}
	return i
}

func skipSpace(body []byte, i int) int {
	for i < len(body) && body[i] <= ' ' && (body[i] == ' ' || body[i] == '\n' || body[i] == '\r' || body[i] == '\t') {
		i++
	}
	return i
}
