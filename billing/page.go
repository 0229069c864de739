package billing

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
)

// Sizes of a page of a list.
const (
	pageUsual   = 100
	pageMost    = 500
	pageCommand = 10_000 // of a command
)

// Page selects a part of a list.
type Page struct {
	Limit  int    `json:"limit,omitempty"`  // 1 to 500, default 100; for a command without a limit: all
	Cursor string `json:"cursor,omitempty"` // next_cursor of the page before
}

// List is a page of a list. It may have fewer items than its limit, and a next page all the same:
// where filters match few rows, a page ends after a bounded number.
type List[T any] struct {
	Items []T    `json:"data"`
	Next  string `json:"next_cursor"` // empty: this is the last page
}

// bound sets and checks the limit of a query of an operator on the network.
func (p *Page) bound() error {
	if p.Limit == 0 {
		p.Limit = pageUsual
	}
	if p.Limit < 1 || p.Limit > pageMost {
		return fmt.Errorf("%w: limit is %d; expected 1 to %d", ErrQuery, p.Limit, pageMost)
	}
	return nil
}

// most is how many rows a page has.
func (p *Page) most() int {
	if p.Limit <= 0 {
		return math.MaxInt32
	}
	return p.Limit
}

// after reads the place that the cursor names into the values that made it.
func (p *Page) after(place ...any) error {
	if p.Limit < 0 || p.Limit > pageCommand {
		return fmt.Errorf("limit is %d; expected 1 to %d", p.Limit, pageCommand)
	}
	if p.Cursor == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	var parts []json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err == nil && len(parts) != len(place) {
		err = fmt.Errorf("it is of another list")
	}
	for i := 0; err == nil && i < len(place); i++ {
		err = json.Unmarshal(parts[i], place[i])
	}
	if err != nil {
		return fmt.Errorf("%w: cursor is not a next_cursor of this list: %w", ErrQuery, err)
	}
	return nil
}

// cursorAt names a place in a list.
func cursorAt(place ...any) string {
	text, _ := json.Marshal(place)
	return base64.RawURLEncoding.EncodeToString(text)
}

// page makes a page of rows. next is the row behind which the list continues, and at names its place.
func page[R, I any](rows []*R, next *R, at func(*R) string, describe func([]*R) ([]I, error)) (list List[I], err error) {
	if next != nil {
		list.Next = at(next)
	}
	list.Items, err = describe(rows)
	if list.Items == nil {
		list.Items = []I{}
	}
	return list, err
}
