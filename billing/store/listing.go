package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
)

// listIndexes were added in version 14: indexes in the order of the lists of operators.
const listIndexes = `
CREATE INDEX account_created ON account(created_us, no);
CREATE INDEX account_status ON account(status, created_us, no);
DROP INDEX api_key_account;
CREATE INDEX api_key_account ON api_key(account, no);
DROP INDEX api_key_last6;
CREATE INDEX api_key_last6 ON api_key(last6, no);
CREATE INDEX api_key_wallet ON api_key(no) WHERE type = 3 AND revoked_us = 0;
CREATE INDEX entry_kind ON entry(kind, ts_us, id);
DROP INDEX audit_account;
CREATE INDEX audit_account ON audit(account, at_us, no);
DROP INDEX audit_subject;
CREATE INDEX audit_subject ON audit(subject, at_us, no);
DROP INDEX audit_who;
CREATE INDEX audit_who ON audit(who, at_us, no);
CREATE INDEX audit_operation ON audit(operation, at_us, no);
CREATE INDEX audit_at ON audit(at_us, no);
-- In the order of the list, too: SQLite would read all jobs in the index of the list instead.
DROP INDEX job_due;
CREATE INDEX job_due ON job(created_us, id) WHERE ` + jobDue + `;
CREATE INDEX job_created ON job(created_us, id);
CREATE INDEX job_model_created ON job(model, created_us, id);
DROP INDEX payment_created;
CREATE INDEX payment_created ON payment(created_us, id);
DROP INDEX payment_wallet;
CREATE INDEX payment_wallet ON payment(wallet, created_us, id);
CREATE INDEX payment_account ON payment(account, created_us, id);
CREATE INDEX payment_undecided ON payment(created_us, id) WHERE ` + paymentOpen + `;
CREATE INDEX review_created ON review(created_us, id);
CREATE INDEX review_slug_created ON review(slug, created_us, id);
CREATE INDEX operator_token_created ON operator_token(created_us, id);
`

// listing is a list of an operator, read page by page. Some filters are looked up in an index
// that is in the order of the list; the others are checked row by row, of a bounded number. So a
// page costs the same in a store of any size.
type listing[R any] struct {
	where
	text    string // SELECT … WHERE
	order   string // columns of a place, of which the last is unique; SQLite and PostgreSQL read them in one index
	down    bool   // the last row comes first
	scan    func(scan func(...any) error) (*R, error)
	place   func(*R) []any
	behind  []any // the place of the last row before; nil: the list begins
	matches func(*R) bool
}

const (
	// rowsLooked is how many rows a page looks at. A filter without an index of its own may leave
	// a page short; the next page continues behind it.
	rowsLooked = 2000
	// pageless means a list without pages, of a command.
	pageless = math.MaxInt32
	// rowsGrow is how many times as many rows as before are read next, where few of them match.
	rowsGrow = 4
)

// readPage gives the rows of a page, and the row behind which the list continues; nil: at its end.
func (l *listing[R]) readPage(s *sqlStore, most int) (found []*R, next *R, err error) {
	err = s.read(func(q *Query) error {
		found, next = nil, nil
		behind, looked := l.behind, 0
		for n := min(most, pageless) + 1; ; {
			last, rows := (*R)(nil), 0
			text, args := l.part(behind, n)
			err := q.Each(func(r *sql.Rows) (err error) {
				if last, err = l.scan(r.Scan); err != nil {
					return err
				}
				if rows++; l.matches != nil && !l.matches(last) {
					return nil
				}
				if len(found) == most {
					next = found[most-1]
					return errFound
				}
				found = append(found, last)
				return nil
			}, text, args...)
			if errors.Is(err, errFound) || err == nil && rows < n {
				return nil
			}
			if looked += rows; err == nil && looked >= rowsLooked {
				next = last
				return nil
			}
			if err != nil {
				return err
			}
			behind, n = l.place(last), min(rowsGrow*n, rowsLooked-looked)
		}
	})
	return found, next, err
}

// part is the statement for some rows behind a place.
func (l *listing[R]) part(behind []any, most int) (string, []any) {
	w := where{l.terms[:len(l.terms):len(l.terms)], l.args[:len(l.args):len(l.args)]}
	order, than := l.order, ">"
	if l.down {
		order, than = strings.ReplaceAll(l.order, ",", " DESC,")+" DESC", "<"
	}
	if behind != nil {
		var places []string
		for _, v := range behind {
			w.args = append(w.args, v)
			places = append(places, fmt.Sprint("$", len(w.args)))
		}
		w.terms = append(w.terms, fmt.Sprintf("(%s) %s (%s)", l.order, than, strings.Join(places, ", ")))
	}
	return l.text + w.text(order, most), w.args
}

// where builds the conditions of a list.
type where struct {
	terms []string
	args  []any
}

// add adds a condition that ends with its argument, if it is asked for.
func (w *where) add(condition string, arg any, asked bool) {
	if asked {
		w.args = append(w.args, arg)
		w.terms = append(w.terms, fmt.Sprint(condition, "$", len(w.args)))
	}
}

// within adds the bounds of a period.
func (w *where) within(column string, fromUs, toUs int64) {
	w.add(column+" >= ", fromUs, fromUs != 0)
	w.add(column+" < ", toUs, toUs != 0)
}

// text is the list's condition, order and limit.
func (w *where) text(order string, most int) string {
	text := "true"
	for _, term := range w.terms {
		text += " AND " + term
	}
	return fmt.Sprintf("%s ORDER BY %s LIMIT %d", text, order, most)
}
