package rpc

import (
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strings"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/sha3"
)

// transactionHash is the hash or signature by which the chain knows the signed
// transaction in params, as a JSON string; nil when it is not known.
func transactionHash(f *Family, params []byte) []byte {
	text := gjson.GetBytes(params, "0").String()
	if f.Name == "solana" {
		return solanaSignature(text, gjson.GetBytes(params, "1.encoding").String())
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) == 0 {
		return nil
	}
	h := sha3.NewLegacyKeccak256()
	if inner := blobPayload(raw); inner != nil {
		_, _ = h.Write(raw[:1])
		raw = inner
	}
	_, _ = h.Write(raw)
	return []byte(`"0x` + hex.EncodeToString(h.Sum(nil)) + `"`)
}

// blobPayload is the part of a blob transaction (EIP-4844) that is hashed,
// when raw is in the form that carries the blobs beside it: 3, [[payload],
// blobs, …].
func blobPayload(raw []byte) []byte {
	const listFrom = 0xc0 // of RLP
	if raw[0] != 3 {
		return nil
	}
	at, _ := rlpHead(raw[1:])
	if at < 0 || 1+at >= len(raw) || raw[1] < listFrom || raw[1+at] < listFrom {
		return nil
	}
	inner := raw[1+at:]
	head, size := rlpHead(inner)
	if head < 0 || size > len(inner)-head {
		return nil
	}
	return inner[:head+size]
}

// rlpHead is the length of an RLP list's head and of its content; -1: broken.
func rlpHead(p []byte) (head, size int) {
	const short, long = 0xc0, 0xf7
	if len(p) == 0 || p[0] < short {
		return -1, 0
	}
	if p[0] <= long {
		return 1, int(p[0] - short)
	}
	n := int(p[0] - long)
	if n > 4 || len(p) < 1+n {
		return -1, 0
	}
	for _, b := range p[1 : 1+n] {
		size = size<<8 | int(b)
	}
	return 1 + n, size
}

// solanaSignature is the first signature of a transaction in its wire form: a
// count and 64 bytes each.
func solanaSignature(text, encoding string) []byte {
	var raw []byte
	if encoding == "base64" {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil
		}
	} else if raw = base58Decode(text); raw == nil {
		return nil
	}
	if len(raw) < 65 || raw[0] == 0 || raw[0] > 127 {
		return nil
	}
	return []byte(`"` + base58Encode(raw[1:65]) + `"`)
}

const base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// maxBase58 is more than a transaction has: a packet is at most 1232 bytes.
const maxBase58 = 2048

var base = big.NewInt(58)

func base58Decode(text string) []byte {
	if len(text) == 0 || len(text) > maxBase58 {
		return nil
	}
	n, zeros := new(big.Int), 0
	for i := range len(text) {
		d := strings.IndexByte(base58Digits, text[i])
		if d < 0 {
			return nil
		}
		if zeros == i && d == 0 {
			zeros++
		}
		n.Mul(n, base).Add(n, big.NewInt(int64(d)))
	}
	return append(make([]byte, zeros), n.Bytes()...)
}

func base58Encode(p []byte) string {
	n, rest := new(big.Int).SetBytes(p), new(big.Int)
	var digits []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, rest)
		digits = append(digits, base58Digits[rest.Int64()])
	}
	for _, b := range p {
		if b != 0 {
			break
		}
		digits = append(digits, base58Digits[0])
	}
	for i, k := 0, len(digits)-1; i < k; i, k = i+1, k-1 {
		digits[i], digits[k] = digits[k], digits[i]
	}
	return string(digits)
}
