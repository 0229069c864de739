package store

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"farebox/billing/money"
)

// bulkMost and bulkBytes are how many rows, and bytes in them, go to the
// database at a time.
const (
	bulkMost  = 4096
	bulkBytes = 4 << 20
)

// bulk runs one statement for many rows: with arrays in one go, or one by one.
// Its text names the columns of a row where the rows come in: {ROWS iib} for an
// INSERT, {FROM account i, data b} as u for what stands behind FROM. Kinds of
// columns: i integer, n integer or NULL, t text, b bytes.
type bulk struct {
	t       *tx
	text    string
	kinds   string
	columns []any
	rows    int
	bytes   int
}

var bulkWord = regexp.MustCompile(`\{(ROWS|FROM) ([^}]*)\}`)

// kindsOf are the kinds of the columns in a {ROWS} or {FROM}.
func kindsOf(word []string) (kinds string, names []string) {
	if word[1] == "ROWS" {
		return word[2], nil
	}
	for column := range strings.SplitSeq(word[2], ",") {
		f := strings.Fields(column)
		names, kinds = append(names, f[0]), kinds+f[1]
	}
	return kinds, names
}

// rows writes out {ROWS} and {FROM}.
func (d *dialect) rows(text string) string {
	word := bulkWord.FindStringSubmatch(text)
	if word == nil {
		return text
	}
	kinds, names := kindsOf(word)
	list := make([]string, len(kinds))
	for i, kind := range kinds {
		list[i] = fmt.Sprint("$", i+1)
		if d.arrays {
			list[i] += map[rune]string{'i': "::bigint[]", 'n': "::bigint[]", 't': "::text[]", 'b': "::bytea[]"}[kind]
		} else if names != nil {
			list[i] += " AS " + names[i]
		}
	}
	all := strings.Join(list, ", ")
	switch {
	case d.arrays && names == nil:
		all = "SELECT * FROM unnest(" + all + ")"
	case d.arrays:
		all = "unnest(" + all + ") AS u(" + strings.Join(names, ", ") + ")"
	case names == nil:
		all = "VALUES(" + all + ")"
	default:
		all = "(SELECT " + all + ") AS u"
	}
	return strings.Replace(text, word[0], all, 1)
}

// bulk begins; flush ends.
func (t *tx) bulk(text string) *bulk {
	b := &bulk{t: t, text: text}
	if t.s.dialect.arrays {
		b.kinds, _ = kindsOf(bulkWord.FindStringSubmatch(text))
		b.clear()
	}
	return b
}

func (b *bulk) clear() {
	b.rows, b.bytes, b.columns = 0, 0, make([]any, len(b.kinds))
	for i, kind := range b.kinds {
		switch kind {
		case 'i':
			b.columns[i] = []int64(nil)
		case 'n':
			b.columns[i] = []*int64(nil)
		case 't':
			b.columns[i] = []string(nil)
		default:
			b.columns[i] = [][]byte(nil)
		}
	}
}

// add gives one row; what is behind its bytes must stay until flush, which also
// says what failed.
func (b *bulk) add(row ...any) {
	if b.t.failed != nil {
		return
	}
	if b.kinds == "" {
		_, b.t.failed = b.t.exec(b.text, row...)
		return
	}
	for i, v := range row {
		switch c := b.columns[i].(type) {
		case []int64:
			b.columns[i] = append(c, integer(v))
		case []*int64:
			var p *int64
			if v != nil {
				n := integer(v)
				p = &n
			}
			b.columns[i] = append(c, p)
		case []string:
			b.columns[i] = append(c, v.(string))
		case [][]byte:
			b.columns[i] = append(c, v.([]byte))
			b.bytes += len(v.([]byte))
		}
	}
	b.rows++
	if b.rows == bulkMost || b.bytes >= bulkBytes {
		_ = b.flush()
	}
}

// flush sends what add kept.
func (b *bulk) flush() error {
	if b.rows > 0 && b.t.failed == nil {
		_, b.t.failed = b.t.ExecContext(b.t.ctx, b.t.s.text(b.text), b.columns...)
		b.clear()
	}
	return b.t.failed
}

// flush sends what several kept, one after the other; nothing once one failed.
func (t *tx) flush(list ...*bulk) error {
	for _, b := range list {
		_ = b.flush()
	}
	return t.failed
}

func integer(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		return int64(v)
	case uint32:
		return int64(v)
	case int:
		return int64(v)
	case money.Nano:
		return int64(v)
	}
	r := reflect.ValueOf(v)
	if r.CanInt() {
		return r.Int()
	}
	return int64(r.Uint())
}
