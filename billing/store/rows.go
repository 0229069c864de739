package store

import (
	"database/sql"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// table maps the rows of a table to structs of type R. The tag of a field names its
// column; fields without a tag are not stored.
//
//	ID   string      `db:"id"`
//	Day  int32       `db:"day,date"`           // stored as 20261121; 0: none
//	Paid money.Parts `db:"paid_{NAME}"`        // a column for each currency
//	Name string      `db:"name" from:"a.name"` // read from a joined table
//
// Further options of a tag: null stores a zero value as NULL; large is not read by lists;
// late is left to the default of the column by {INSERT}.
type table[R any] struct {
	columns []*column
	row     string // SELECT … WHERE of a whole row
	brief   string // and of one without its large columns
}

// column is one column of a table, and its place in the struct.
type column struct {
	name, from              string
	field, part             int // part: the element of an array or struct; -1: the field itself
	date, null, large, late bool
}

// newTable describes a table: its name, or an alias and joins after the name, as in a FROM.
func newTable[R any](from string) *table[R] {
	t, prefix := &table[R]{}, ""
	if words := strings.Fields(from); len(words) > 1 {
		prefix = words[1] + "."
	}
	kind := reflect.TypeFor[R]()
	var row, brief []string
	for i := range kind.NumField() {
		names, options, _ := strings.Cut(kind.Field(i).Tag.Get("db"), ",")
		list := columnsOf(names)
		for part, name := range list {
			if len(list) == 1 {
				part = -1
			}
			has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
			c := &column{name: name, from: kind.Field(i).Tag.Get("from"), field: i, part: part,
				date: has("date"), null: has("null"), large: has("large"), late: has("late")}
			t.columns = append(t.columns, c)
			text := prefix + name
			if c.from != "" {
				text = c.from
			}
			row = append(row, text)
			if c.large {
				text = "NULL"
			}
			brief = append(brief, text)
		}
	}
	t.row = "SELECT " + strings.Join(row, ", ") + " FROM " + from + " WHERE "
	t.brief = "SELECT " + strings.Join(brief, ", ") + " FROM " + from + " WHERE "
	return t
}

// names are the columns of the table itself.
func (t *table[R]) names() (list []string) {
	for _, c := range t.columns {
		if c.from == "" {
			list = append(list, c.name)
		}
	}
	return list
}

// value is where a column is in a row.
func (c *column) value(row reflect.Value) reflect.Value {
	v := row.Field(c.field)
	switch {
	case c.part < 0:
		return v
	case v.Kind() == reflect.Array:
		return v.Index(c.part)
	}
	return v.Field(c.part)
}

// destination is the destination that Scan fills.
func (c *column) destination(row reflect.Value) any {
	v := c.value(row)
	switch {
	case c.date:
		return scanner(func(from any) {
			if date, _ := from.(int64); date != 0 {
				v.SetInt(int64(calendar.DayOfDate(date)))
			}
		})
	case v.Kind() == reflect.Uint64: // stored as int64, negative in the upper half
		return scanner(func(from any) {
			n, _ := from.(int64)
			v.SetUint(uint64(n))
		})
	case v.Kind() == reflect.Array:
		return scanner(func(from any) {
			b, _ := from.([]byte)
			reflect.Copy(v, reflect.ValueOf(b))
		})
	}
	return v.Addr().Interface()
}

// scanner is a [sql.Scanner] for columns that database/sql cannot read by itself.
type scanner func(from any)

// Scan reads one value.
func (s scanner) Scan(from any) error {
	s(from)
	return nil
}

// written is the argument of a statement for a column.
func (c *column) written(row reflect.Value) any {
	v := c.value(row)
	switch {
	case (c.null || v.Kind() == reflect.Pointer) && v.IsZero():
		return nil
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	switch {
	case c.date && v.Int() == 0:
		return int64(0)
	case c.date:
		return calendar.Date(int32(v.Int()))
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	case v.Kind() == reflect.Bool:
		return flag(v.Bool())
	case v.Kind() == reflect.Array:
		return v.Bytes()
	}
	return v.Interface()
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// scan reads a row with the Scan of a [sql.Row] or [sql.Rows].
func (t *table[R]) scan(scan func(...any) error) (*R, error) {
	r := new(R)
	row, into := reflect.ValueOf(r).Elem(), make([]any, len(t.columns))
	for i, c := range t.columns {
		into[i] = c.destination(row)
	}
	if err := scan(into...); err != nil {
		return nil, noRow(err)
	}
	return r, nil
}

// one reads the row for which a condition holds, or gives ErrNoRow.
func (t *table[R]) one(q *Query, where string, args ...any) (*R, error) {
	return t.scan(q.Row(t.row+where, args...).Scan)
}

// find is one on the reader.
func (t *table[R]) find(s *sqlStore, where string, args ...any) (*R, error) {
	return ask(s, func(q *Query) (*R, error) { return t.one(q, where, args...) })
}

// list reads all rows for which a condition holds, without their large columns, on the
// reader.
func (t *table[R]) list(s *sqlStore, where string, args ...any) ([]*R, error) {
	return t.search(s, t.brief+where, args...)
}

// search reads all rows of t.row or t.brief with a condition, on the reader.
func (t *table[R]) search(s *sqlStore, text string, args ...any) ([]*R, error) {
	return ask(s, func(q *Query) (all []*R, err error) {
		err = t.each(q, func(r *R) { all = append(all, r) }, text, args...)
		return all, err
	})
}

// all reads all whole rows for which a condition holds.
func (t *table[R]) all(q *Query, where string, args ...any) (all []*R, err error) {
	err = t.each(q, func(r *R) { all = append(all, r) }, t.row+where, args...)
	return all, err
}

// each runs do for every row of t.row or t.brief with a condition.
func (t *table[R]) each(q *Query, do func(*R), text string, args ...any) error {
	rows, err := q.rows(text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r, err := t.scan(rows.Scan)
		if err != nil {
			return err
		}
		do(r)
	}
	return rows.Err()
}

// statement is a statement that takes values out of a row.
type statement[R any] struct {
	text    string
	columns []*column
}

// statement prepares a statement. In its text :name is the value of a column, {SET a, b}
// is "a = :a, b = :b", and {INSERT} the columns and values of a new row. Arguments $1, $2
// and so on do not come from the row.
func (t *table[R]) statement(text string) *statement[R] {
	// Compiled here: statements are package variables, and so are made in no fixed order.
	words := regexp.MustCompile(`\{(SET|INSERT)([^}]*)\}|:([a-z0-9_]+)|\$(\d+)`)
	first := 0 // number of the last argument that does not come from the row
	for _, word := range words.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(word[4])
		first = max(first, n)
	}
	st := &statement[R]{}
	param := func(name string) string {
		at := slices.IndexFunc(st.columns, func(c *column) bool { return c.name == name })
		if at < 0 {
			in := slices.IndexFunc(t.columns, func(c *column) bool { return c.name == name })
			if in < 0 {
				panic(fmt.Sprintf("%q names the unknown column %q", text, name))
			}
			at = len(st.columns)
			st.columns = append(st.columns, t.columns[in])
		}
		return "$" + strconv.Itoa(first+at+1)
	}
	st.text = words.ReplaceAllStringFunc(text, func(word string) string {
		m := words.FindStringSubmatch(word)
		if m[4] != "" {
			return word
		}
		var names, values []string
		switch m[1] {
		case "SET":
			for name := range strings.SplitSeq(m[2], ",") {
				name = strings.TrimSpace(name)
				values = append(values, name+" = "+param(name))
			}
			return strings.Join(values, ", ")
		case "INSERT":
			for _, c := range t.columns {
				if !c.late && c.from == "" {
					names, values = append(names, c.name), append(values, param(c.name))
				}
			}
			return "(" + strings.Join(names, ", ") + ") VALUES(" + strings.Join(values, ", ") + ")"
		}
		return param(m[3])
	})
	return st
}

// args are the arguments of the statement for a row, after those that do not come from it.
func (st *statement[R]) args(r *R, more ...any) []any {
	row := reflect.ValueOf(r).Elem()
	for _, c := range st.columns {
		more = append(more, c.written(row))
	}
	return more
}

// exec runs the statement for a row and says how many rows it changed.
func (st *statement[R]) exec(t *tx, r *R, more ...any) (int64, error) {
	return t.affect(st.text, st.args(r, more...)...)
}

// each2 runs do for every row of two columns; nothing else may run on a transaction
// meanwhile.
func each2[A, B any](q *Query, do func(A, B), text string, args ...any) error {
	var a A
	var b B
	return q.Each(func(rows *sql.Rows) error {
		err := rows.Scan(&a, &b)
		if err == nil {
			do(a, b)
		}
		return err
	}, text, args...)
}

// each3 is each2 for three columns.
func each3[A, B, C any](q *Query, do func(A, B, C), text string, args ...any) error {
	var a A
	var b B
	var c C
	return q.Each(func(rows *sql.Rows) error {
		err := rows.Scan(&a, &b, &c)
		if err == nil {
			do(a, b, c)
		}
		return err
	}, text, args...)
}

// each4 is each2 for four columns.
func each4[A, B, C, D any](q *Query, do func(A, B, C, D), text string, args ...any) error {
	var a A
	var b B
	var c C
	var d D
	return q.Each(func(rows *sql.Rows) error {
		err := rows.Scan(&a, &b, &c, &d)
		if err == nil {
			do(a, b, c, d)
		}
		return err
	}, text, args...)
}

// values reads rows of one column.
func values[A any](q *Query, text string, args ...any) ([]A, error) {
	return list(q, func(a *A) []any { return []any{a} }, text, args...)
}

// bulkMost and bulkBytes are how many rows, and bytes in them, go to the
// database at a time.
const (
	bulkMost  = 4096
	bulkBytes = 4 << 20
)

// bulk runs one statement for many rows: with arrays in one go, or one by one.
// Its text names the columns of a row where the rows come in: {ROWS iib} for an
// INSERT, {FROM account i, data b} as u after FROM. Kinds of
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

// add adds one row. Its bytes must not change before flush, which also gives the error.
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

// flush sends the rows of add.
func (b *bulk) flush() error {
	if b.rows > 0 && b.t.failed == nil {
		_, b.t.failed = b.t.ExecContext(b.t.ctx, b.t.s.text(b.text), b.columns...)
		b.clear()
	}
	return b.t.failed
}

// flush flushes several, one after the other, until one fails.
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
