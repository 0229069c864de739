package billing

import (
	"encoding/hex"
	"time"

	"farebox/config"
)

// How entries are written, exactly and from integers (addendum 17.2).

var lineWords = [lineCount]string{lineInput: "input", lineCacheRead: "cache-read", lineCacheWrite: "cache-write", lineOutput: "output"}

// skuKinds are the words for what a model does.
var skuKinds = map[string]string{"text": "llm", "embedding": "embedding"}

// tokenDigits is how many decimals millions of tokens have.
const tokenDigits = 6

// SKU is the name of what was sold: <model>-<what>-<unit>.
func (e *UsageEntry) SKU() string {
	kind := skuKinds[e.ModelType]
	if kind == "" {
		kind = "llm"
	}
	return e.Model + "-" + kind + "-" + lineWords[e.Line] + "-mtoken"
}

// AppendPrice appends the price in USD of a million tokens.
func (e *UsageEntry) AppendPrice(b []byte) []byte {
	return config.AppendDecimal(b, e.Price, tokenDigits)
}

// AppendUnits appends how many millions of tokens.
func (e *UsageEntry) AppendUnits(b []byte) []byte {
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
