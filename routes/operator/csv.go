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

// table writes a list as CSV, page after page, as it is read.
type table struct {
	ctx     context.Context
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
	w := csv.NewWriter(&t.rows)
	w.UseCRLF = true
	if !t.begun {
		_ = w.Write(t.columns)
	}
	cells := make([]string, len(t.columns))
	for _, item := range gjson.GetBytes(page, t.pages.items).Array() {
		for i, name := range t.columns {
			cells[i] = cell(item.Get(name))
		}
		_ = w.Write(cells)
	}
	w.Flush()
	next := gjson.GetBytes(page, t.pages.next).Raw
	t.begun, t.over, t.cursor = true, slices.Contains([]string{"", `""`, "0", "null", t.cursor}, next), next
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

// cell is a value that no spreadsheet takes for a formula. Numbers stay numbers, negative ones, too.
func cell(v gjson.Result) string {
	text := v.String()
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && !plainNumber.MatchString(text) {
		return "'" + text
	}
	return text
}
