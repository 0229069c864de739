package operator

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// writer writes a list in a format.
type writer interface {
	// begin is called once, with the first page of the list.
	begin(page gjson.Result, columns []string)
	row(cells []string)
	end()
}

// table writes a list page after page, as it is read.
type table struct {
	ctx     context.Context
	out     writer
	page    func(ctx context.Context, cursor string) (list []byte, err error)
	pages   shape
	columns []string
	cursor  string // of the next page, in JSON
	begun   bool
	over    bool
	rows    bytes.Buffer
}

// Read reads the next page when the last one is written. An error of a later page cuts the answer.
func (t *table) Read(p []byte) (int, error) {
	for t.rows.Len() == 0 {
		if t.over {
			return 0, io.EOF
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	return t.rows.Read(p)
}

func (t *table) fill() error {
	page, err := t.page(t.ctx, t.cursor)
	if err != nil {
		return err
	}
	if !t.begun {
		t.out.begin(gjson.ParseBytes(page), t.columns)
	}
	cells := make([]string, len(t.columns))
	for _, item := range gjson.GetBytes(page, t.pages.items).Array() {
		for i, name := range t.columns {
			cells[i] = item.Get(name).String()
		}
		t.out.row(cells)
	}
	next := gjson.GetBytes(page, t.pages.next).Raw
	t.begun, t.over, t.cursor = true, slices.Contains([]string{"", `""`, "0", "null", t.cursor}, next), next
	if t.over {
		t.out.end()
	}
	return nil
}

// columnsOf are the paths of the single values of a type.
func columnsOf(t reflect.Type, at string, depth int) (list []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || writesItself(t) || depth == 0 {
		return []string{strings.TrimPrefix(at, ".")}
	}
	for _, m := range membersOf(t) {
		list = append(list, columnsOf(m.typ, at+"."+m.name, depth-1)...)
	}
	return list
}

var jsonWriter = reflect.TypeFor[json.Marshaler]()

func writesItself(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || isText(t) || t.Implements(jsonWriter) || reflect.PointerTo(t).Implements(jsonWriter)
}

var plainNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// csvWriter writes CSV.
type csvWriter struct{ rows *bytes.Buffer }

func (c csvWriter) begin(_ gjson.Result, columns []string) { c.row(columns) }

func (c csvWriter) row(cells []string) {
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	w := csv.NewWriter(c.rows)
	w.UseCRLF = true
	_ = w.Write(cells) // a buffer takes everything
	w.Flush()
}

func (c csvWriter) end() {}

// cell is a text that no spreadsheet takes for a formula. Numbers stay numbers, negative ones, too.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && !plainNumber.MatchString(text) {
		return "'" + text
	}
	return text
}
