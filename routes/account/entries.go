package account

import (
	"bytes"
	"strconv"
	"strings"

	"farebox/billing/report"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// How entries of usage are written (addendum 17.2). Every number is formatted
// from an integer.

func appendEntries(b []byte, entries []report.Entry) []byte {
	b = append(b, '[')
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEntry(b, &entries[i])
	}
	return append(b, ']')
}

func appendEntry(b []byte, e *report.Entry) []byte {
	b = append(b, `{"timestamp":"`...)
	b = e.AppendTime(b)
	b = jsontext.AppendString(append(b, `","sku":`...), e.SKU())
	b = append(b, `,"pricePerUnitUsd":`...)
	b = e.AppendPrice(b)
	b = append(b, `,"units":`...)
	b = e.AppendUnits(b)
	b = append(b, `,"amount":`...)
	b = e.AppendAmount(b)
	b = append(b, `,"currency":"`...)
	b = append(b, e.Currency.String()...)
	b = append(append(b, `","notes":"`...), e.Notes()...)
	if !e.OfRequest() {
		return append(b, `","inferenceDetails":null}`...)
	}
	b = append(b, `","inferenceDetails":{"requestId":"`...)
	b = e.AppendRequestID(b)
	b = strconv.AppendUint(append(b, `","inferenceExecutionTime":`...), uint64(e.TookMs), 10)
	if !e.CountsTokens() {
		return append(b, `,"promptTokens":null,"completionTokens":null}}`...)
	}
	b = jsontext.Object(b).Int("promptTokens", e.Prompt).Int("completionTokens", e.Completion)
	return append(b, "}}"...)
}

const csvHead = "timestamp,sku,pricePerUnitUsd,units,amount,currency,notes," +
	"inferenceDetails.requestId,inferenceDetails.inferenceExecutionTime,inferenceDetails.promptTokens,inferenceDetails.completionTokens\r\n"

// csvRow is more than a row with a name of usual length has.
const csvRow = 256

// entriesCSV is a page of entries, at most 1000 rows.
func entriesCSV(entries []report.Entry) []byte {
	b := make([]byte, 0, len(csvHead)+csvRow*len(entries))
	b = append(b, csvHead...)
	for i := range entries {
		e := &entries[i]
		b = append(e.AppendTime(b), ',')
		b = append(appendCSV(b, e.SKU()), ',')
		b = append(e.AppendPrice(b), ',')
		b = append(e.AppendUnits(b), ',')
		b = append(e.AppendAmount(b), ',')
		b = append(append(b, e.Currency.String()...), ',')
		b = append(append(b, e.Notes()...), ',')
		if !e.OfRequest() {
			b = append(b, ",,,\r\n"...)
			continue
		}
		b = append(e.AppendRequestID(b), ',')
		b = append(strconv.AppendUint(b, uint64(e.TookMs), 10), ',')
		if !e.CountsTokens() {
			b = append(b, ",\r\n"...)
			continue
		}
		b = append(strconv.AppendInt(b, e.Prompt, 10), ',')
		b = append(strconv.AppendInt(b, e.Completion, 10), '\r', '\n')
	}
	return b
}

// appendCSV appends text as one field. Text that a spreadsheet would take for a
// formula gets an apostrophe before it.
func appendCSV(b []byte, s string) []byte {
	formula := s != "" && strings.IndexByte("=+-@\t\r\n", s[0]) >= 0
	if !formula && !strings.ContainsAny(s, ",\"\r\n") {
		return append(b, s...)
	}
	b = append(b, '"')
	if formula {
		b = append(b, '\'')
	}
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}

// wantsCSV says whether a client wants a list as CSV: by the query format=csv or format=json, or
// else by its Accept header.
func wantsCSV(c *routes.Call, q *routes.Query) bool {
	switch q.Choice("format") {
	case "csv":
		return true
	case "json":
		return false
	}
	accept := c.Ctx.Request.Header.Peek("Accept")
	csv, csvAt := accepted(accept, "text/csv")
	json, jsonAt := accepted(accept, "application/json")
	return csv > json || csv > 0 && csv == json && csvAt < jsonAt
}

// accepted is the quality, in thousandths, that an Accept list gives to a type
// by its name, and its place in the list; 0 when it does not name it.
func accepted(header []byte, typ string) (quality, at int) {
	for at = 0; len(header) > 0; at++ {
		var item []byte
		item, header, _ = bytes.Cut(header, []byte(","))
		name, params, _ := bytes.Cut(item, []byte(";"))
		if bytes.EqualFold(bytes.TrimSpace(name), []byte(typ)) {
			return weight(string(params)), at
		}
	}
	return 0, at
}

// weight reads ;q= as thousandths; without one it is 1.
func weight(params string) int {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.ReplaceAll(p, " ", ""), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		whole, decimals, _ := strings.Cut(value, ".")
		n, err := strconv.Atoi(whole + (decimals + "000")[:3])
		if err != nil || n < 0 {
			return 0
		}
		return min(n, 1000)
	}
	return 1000
}
