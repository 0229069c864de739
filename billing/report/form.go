package report

import (
	"encoding/hex"
	"time"

	"farebox/billing/money"
	"farebox/config"
)

// How entries are written, exactly and from integers (addendum 17.2).

// SKU is the name of what was sold.
func (e *Entry) SKU() string { return e.Kind.SKU(e.Model) }

// AppendPrice appends the price in USD, of a million where the kind is counted
// by the million.
func (e *Entry) AppendPrice(b []byte) []byte { return e.Kind.AppendPrice(b, e.Price) }

// AppendUnits appends the units, in millions where the kind is counted so.
func (e *Entry) AppendUnits(b []byte) []byte { return e.Kind.AppendUnits(b, e.Units) }

// AppendAmount appends the change of the balance: a charge is negative.
func (e *Entry) AppendAmount(b []byte) []byte { return appendNano(b, -e.Amount) }

// appendNano appends an amount.
func appendNano(b []byte, n money.Nano) []byte {
	const nanoDigits = 9
	return config.AppendDecimal(b, int64(n), nanoDigits)
}

// AppendTime appends when the request ended, to the millisecond.
func (e *Entry) AppendTime(b []byte) []byte {
	return time.UnixMicro(e.AtUs).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// AppendRequestID appends the request's id as its answer's header had it.
func (e *Entry) AppendRequestID(b []byte) []byte { return hex.AppendEncode(b, e.RequestID[:]) }
