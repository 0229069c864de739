package billing

import (
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"farebox/config"
)

// How entries are written, exactly and from integers (addendum 17.2).

var lineWords = [lineCount]string{lineInput: "input", lineCacheRead: "cache-read", lineCacheWrite: "cache-write", lineOutput: "output"}

// skuKinds are the words for what a model does; of all others it is llm.
var skuKinds = map[string]string{"text": "llm", "embedding": "embedding"}

// imageSKUs are how the lines of a sale of pictures end (ImageSale).
var imageSKUs = [lineCount]string{lineInput: "-image-input-unit", lineCacheRead: "-image-search-unit", lineCacheWrite: "-image-enhancement-unit", lineOutput: "-image-unit"}

// Prices and units are written with so many decimals: tokens by the million,
// pictures and credits one by one.
const (
	tokenDigits = 6
	picoDigits  = 12
)

// SKU is the name of what was sold: <model>-<what>-<unit>.
func (e *UsageEntry) SKU() string {
	if e.ModelType == RPCType {
		return e.Model
	}
	if !e.OfTokens() {
		return e.Model + imageSKUs[e.Line]
	}
	kind := skuKinds[e.ModelType]
	if kind == "" {
		kind = "llm"
	}
	return e.Model + "-" + kind + "-" + lineWords[e.Line] + "-mtoken"
}

// RPCType is the type of what is sold by the credit: blockchain calls. The name
// of such a model is its SKU (addendum 13).
const RPCType = "rpc"

// OfTokens says whether tokens were sold, and not pictures or credits.
func (e *UsageEntry) OfTokens() bool { return !soldSingly(e.ModelType) }

// soldSingly says that models of a type are sold by the picture or the credit.
func soldSingly(typ string) bool { return typ == RPCType || slices.Contains(config.ImageTypes, typ) }

// AppendPrice appends the price in USD of a million tokens, or of one picture
// or credit.
func (e *UsageEntry) AppendPrice(b []byte) []byte {
	if !e.OfTokens() {
		return config.AppendDecimal(b, e.Price, picoDigits)
	}
	return config.AppendDecimal(b, e.Price, tokenDigits)
}

// AppendUnits appends how many millions of tokens, or how many pictures or
// credits.
func (e *UsageEntry) AppendUnits(b []byte) []byte {
	if !e.OfTokens() {
		return strconv.AppendInt(b, e.Units, 10)
	}
	return config.AppendDecimal(b, e.Units, tokenDigits)
}

// AppendAmount appends the change of the balance: a charge is negative.
func (e *UsageEntry) AppendAmount(b []byte) []byte { return appendNano(b, -e.Amount) }

// appendNano appends an amount.
func appendNano(b []byte, n Nano) []byte {
	const nanoDigits = 9
	return config.AppendDecimal(b, int64(n), nanoDigits)
}

// AppendTime appends when the request ended, to the millisecond.
func (e *UsageEntry) AppendTime(b []byte) []byte {
	return time.UnixMicro(e.AtUs).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// AppendRequestID appends the request's id as its answer's header had it.
func (e *UsageEntry) AppendRequestID(b []byte) []byte { return hex.AppendEncode(b, e.RequestID[:]) }
