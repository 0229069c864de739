package store

import (
	"strconv"
	"strings"

	"farebox/billing/money"
)

// Columns that a row has for each currency, in spend order.
var (
	entryColumns = byCurrency("entries_{NAME}", ", ")
	// EntryCount is the number of entries of a row in all currencies.
	EntryCount = byCurrency("entries_{NAME}", " + ")
)

// EntryColumn is the column with the entries in the currency of a place.
func EntryColumn(place int) string { return "entries_" + columnName(money.SpendOrder[place]) }

// byCurrency repeats a piece of SQL for each currency in spend order. {NAME} in it is the
// name of the currency in columns, {LABEL} its name in references, {NO} its number.
func byCurrency(piece, between string) string {
	list := make([]string, money.Currencies)
	for place, c := range money.SpendOrder {
		list[place] = strings.NewReplacer("{NAME}", columnName(c), "{LABEL}", c.String(),
			"{NO}", strconv.Itoa(int(c))).Replace(piece)
	}
	return strings.Join(list, between)
}

// columnsOf are the columns that a tag names.
func columnsOf(names string) []string {
	if strings.Contains(names, "{NAME}") {
		names = byCurrency(names, " ")
	}
	return strings.Fields(names)
}

// columnName is the name of a currency in columns.
func columnName(c money.Currency) string {
	for i, listed := range money.Listed {
		if listed == c {
			return money.Shorts[i]
		}
	}
	panic("currency without a name: " + c.String())
}

// numbers are the arguments for columns by currency, after others.
func numbers[N ~int64](args []any, list []N) []any {
	for _, n := range list {
		args = append(args, int64(n))
	}
	return args
}

// pointers are the destinations for columns by currency, after others.
func pointers[N ~int64](into []any, list []N) []any {
	for i := range list {
		into = append(into, &list[i])
	}
	return into
}
