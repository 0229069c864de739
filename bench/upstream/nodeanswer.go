package upstream

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/sha3"
)

var thrown = []byte("throw '")

// echoed are the errors whose words a client chooses: what a tracer throws, an
// argument that is no number, the reason of a revert.
func echoed(c *nodeCall) (code int, text string) {
	if _, rest, ok := bytes.Cut(c.Params, thrown); ok && strings.HasPrefix(c.Method, "debug_") {
		words, _, _ := bytes.Cut(rest, []byte("'"))
		return -32000, string(words) + " at <eval>:1:25(3)"
	}
	if _, rest, ok := bytes.Cut(c.Params, []byte(`"revert:`)); ok {
		words, _, _ := bytes.Cut(rest, []byte(`"`))
		return 3, "execution reverted: " + string(words)
	}
	if c.Method == "eth_feeHistory" {
		// A block count is a number, or its hexadecimal or decimal digits.
		first := gjson.GetBytes(c.Params, "0")
		if _, err := strconv.ParseUint(first.Str, 0, 64); first.Type != gjson.Number && err != nil {
			return -32602, "invalid argument 0: cannot unmarshal " + first.Str +
				" into Go value of type math.HexOrDecimal64"
		}
	}
	return 0, ""
}

// send takes a transaction; params[0] is its bytes.
func (n *Node) send(c *nodeCall) (result []byte, code int, text string) {
	var params []string
	if json.Unmarshal(c.Params, &params) != nil || len(params) == 0 {
		return nil, -32602, "invalid params"
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(params[0], "0x"))
	if err != nil || len(raw) == 0 {
		return nil, -32602, "invalid argument 0: hex string expected"
	}
	if bytes.HasSuffix(raw, []byte("low")) {
		return nil, -32000, "nonce too low: next nonce 7, tx nonce 6"
	}
	hasher := sha3.NewLegacyKeccak256()
	_, _ = hasher.Write(raw)
	hash := "0x" + hex.EncodeToString(hasher.Sum(nil))
	if n.pool[hash] {
		return nil, -32000, "already known"
	}
	n.pool[hash] = true
	return fmt.Appendf(nil, "%q", hash), 0, ""
}

// hidden is a limit dressed as an answer, as services dress it.
func (n *Node) hidden(b []byte, c *nodeCall, whose string) []byte {
	code, text := -32005, "daily request count exceeded, request rate limited"
	switch whose {
	case "alchemy":
		code, text = 429, "Your app has exceeded its compute units per second capacity. If you have retries enabled, "+
			"you can safely ignore this message."
	case "quicknode":
		code, text = -32007, "15/second request limit reached - reduce calls per second or upgrade your account at "+
			"quicknode.com"
	case "public":
		code, text = -32016, "over rate limit"
	case "therpc":
		code, text = -32029, "Too many requests"
	case "text":
		code, text = -32000, "Rate limit exceeded"
	}
	return nodeError(b, n.o.Solana, c.id(), code, text)
}

func nodeResult(b []byte, idLast bool, id, result []byte) []byte {
	return nodeAnswer(b, idLast, id, append([]byte(`"result":`), result...))
}

func nodeError(b []byte, idLast bool, id []byte, code int, text string) []byte {
	return nodeAnswer(b, idLast, id, fmt.Appendf(nil, `"error":{"code":%d,"message":%q}`, code, text))
}

// nodeAnswer puts the id before or behind what a call came to; nil: it has none.
func nodeAnswer(b []byte, idLast bool, id, outcome []byte) []byte {
	parts := [][]byte{[]byte(`{"jsonrpc":"2.0"`), append([]byte(`"id":`), id...), outcome}
	if idLast {
		parts[1], parts[2] = parts[2], parts[1]
	}
	if id == nil {
		parts = [][]byte{parts[0], outcome}
	}
	return append(append(b, bytes.Join(parts, []byte(","))...), '}')
}
