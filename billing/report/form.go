package report

import (
	"encoding/hex"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
)

// How entries are written, exactly and from integers (addendum 17.2).

// SKU is the name of the sold item.
func (e *Entry) SKU() string {
	if e.ModelNo == 0 && e.Moved != journal.Charged {
		return "account" // of no request that is known
	}
	return e.Kind.SKU(e.Model)
}

// Notes describe the entry.
func (e *Entry) Notes() string {
	if e.Sum {
		return notes[e.Moved] + ", sum of the day"
	}
	return notes[e.Moved]
}

var notes = [...]string{journal.Charged: "API Inference", journal.Refunded: "Refund",
	journal.Repaid: "Payment of debt", journal.Waived: "Charge waived"}

// OfRequest says whether the request is known that the entry is of.
func (e *Entry) OfRequest() bool {
	return !e.Sum && (e.Moved == journal.Charged || e.RequestID != [16]byte{})
}

// CountsTokens says whether the entry has the tokens of its request.
func (e *Entry) CountsTokens() bool { return e.Moved == journal.Charged && e.Kind.OfTokens() }

// AppendPrice appends the price in USD, of a million where the kind is counted
// by the million.
func (e *Entry) AppendPrice(b []byte) []byte { return e.Kind.AppendPrice(b, e.Price) }

// AppendUnits appends the units, in millions where the kind is counted so.
func (e *Entry) AppendUnits(b []byte) []byte { return e.Kind.AppendUnits(b, e.Units) }

// AppendAmount appends the change of the balance: a charge is negative, a refund positive.
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
