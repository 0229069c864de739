package store

import (
	"errors"
	"fmt"
	"strings"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// schema13Requests was added in version 13: details of requests that did not simply succeed.
const schema13Requests = `
-- Requests that failed, were refused, ended early or needed several attempts (RequestRow).
-- The charge of a request is in usage_page.
CREATE TABLE request(
  id {BLOB} NOT NULL, at_us {I64} NOT NULL, node {I64} NOT NULL, account {I64} NOT NULL, api_key {I64} NOT NULL,
  route TEXT NOT NULL, model TEXT NOT NULL, status {I64} NOT NULL, code TEXT NOT NULL, cause TEXT NOT NULL,
  took_ms {I64} NOT NULL, flags {I64} NOT NULL, refused {I64} NOT NULL, limit_by TEXT NOT NULL, hold {I64} NOT NULL,
  had {I64} NOT NULL, held {I64} NOT NULL, needed {I64} NOT NULL, remaining {I64} NOT NULL, period TEXT NOT NULL,
  upstream TEXT NOT NULL, attempts {I64} NOT NULL, tries TEXT NOT NULL, alike {I64} NOT NULL,
  PRIMARY KEY(id, at_us)) {TABLE};
CREATE INDEX request_at ON request(at_us, id);
CREATE INDEX request_account ON request(account, at_us, id);
CREATE INDEX request_key ON request(api_key, at_us, id);
CREATE INDEX request_code ON request(code, at_us, id);
CREATE INDEX request_model ON request(model, at_us, id);
CREATE INDEX request_refused ON request(at_us, id) WHERE refused = 1;
CREATE INDEX request_refused_account ON request(account, at_us, id) WHERE refused = 1;
-- Charges are found by the time of their request, whose account is not known.
CREATE INDEX usage_page_last ON usage_page(last_us, first_us, account, node, seq_first);
`

// RequestRow tells of a request that failed, was refused, ended early or needed several
// attempts. It has nothing of the client's words or of an upstream's.
type RequestRow struct {
	ID        [16]byte   `db:"id"`
	AtUs      int64      `db:"at_us"` // when it began
	Node      uint32     `db:"node"`
	Account   uint32     `db:"account"`
	Key       int64      `db:"api_key"`
	KeyID     string     `db:"key_id" from:"coalesce(k.id, '')"`
	Route     string     `db:"route"` // method and pattern
	Model     string     `db:"model"`
	Status    int        `db:"status"`
	Code      string     `db:"code"`
	Cause     string     `db:"cause"` // why it ended early
	TookMs    int64      `db:"took_ms"`
	Flags     int64      `db:"flags"` // journal.Flags of its charge
	Refused   bool       `db:"refused"`
	LimitBy   string     `db:"limit_by"`  // the limit that refused it
	Hold      money.Nano `db:"hold"`      // set aside for it
	Had       money.Nano `db:"had"`       // of a refusal for want of money: billing.Shortage
	Held      money.Nano `db:"held"`      // by other requests
	Needed    money.Nano `db:"needed"`    // at least
	Remaining money.Nano `db:"remaining"` // of the key's limit
	Period    string     `db:"period"`    // of the key's limit
	Upstream  string     `db:"upstream"`  // the last that was asked
	Attempts  int        `db:"attempts"`
	Tries     string     `db:"tries"` // JSON
	Alike     int64      `db:"alike"` // how many more were like it and have no row
}

// RequestPlace is a place in a list of requests.
type RequestPlace struct {
	AtUs int64
	ID   []byte
}

// RequestFilter selects requests; zero fields select all.
type RequestFilter struct {
	Account      uint32
	Key          int64
	Code, Model  string
	Refused      bool
	FromUs, ToUs int64
	Behind       RequestPlace
	// Matches says whether a row is wanted; nil: all are wanted.
	Matches func(*RequestRow) bool
}

// RequestStore keeps details of requests.
type RequestStore interface {
	// AddRequests adds rows; to add one again changes nothing.
	AddRequests(rows []*RequestRow) error
	// Requests lists rows, the latest first, and looks at a bounded number. next is where the
	// list goes on; nil: nowhere.
	Requests(f RequestFilter, most int) (rows []*RequestRow, next *RequestPlace, err error)
	// Request gives the latest row of a request, or ErrNoRow.
	Request(id [16]byte) (*RequestRow, error)
	// PurgeRequests removes at most so many rows that are older than a time.
	PurgeRequests(beforeUs int64, most int) (removed int, err error)
	// RequestsByAccount counts rows.
	RequestsByAccount() (map[uint32]int, error)
	// PurgeRequestsOf removes the oldest rows of an account.
	PurgeRequestsOf(account uint32, most int) (removed int, err error)
	// EraseRequests removes all rows of an account for good.
	EraseRequests(account uint32) (removed int64, err error)
	// FindCharge finds the charge of a request in a bounded number of pages. ErrManyPages: it
	// may be in others.
	FindCharge(s ChargeSearch) (*journal.Record, error)
	// FindModel is the id of a model, by its number in a record.
	FindModel(no uint32) (string, error)
	// FindUpstream is the name of an upstream, by its number in a record.
	FindUpstream(no uint32) (string, error)
	// FindKeyID is the id of a key, by its number in a record.
	FindKeyID(no int64) (string, error)
}

var (
	requests      = newTable[RequestRow]("request r LEFT JOIN api_key k ON k.no = r.api_key")
	addRequestSQL = "INSERT INTO request(" + strings.Join(requests.names(), ", ") +
		") {ROWS biiiittittiiitiiiiittiti} ON CONFLICT(id, at_us) DO NOTHING"
)

func (s *sqlStore) AddRequests(rows []*RequestRow) error {
	return s.write(func(t *tx) error {
		b := t.bulk(addRequestSQL)
		for _, r := range rows {
			b.add(r.ID[:], r.AtUs, int64(s.node), int64(r.Account), r.Key, r.Route, r.Model, int64(r.Status), r.Code, r.Cause,
				r.TookMs, r.Flags, flag(r.Refused), r.LimitBy, int64(r.Hold), int64(r.Had), int64(r.Held), int64(r.Needed),
				int64(r.Remaining), r.Period, r.Upstream, int64(r.Attempts), r.Tries, r.Alike)
		}
		return b.flush()
	})
}

// Requests has one filter looked up in an index and checks the others by row.
func (s *sqlStore) Requests(f RequestFilter, most int) (found []*RequestRow, next *RequestPlace, err error) {
	l := listing[RequestRow]{text: requests.row, order: "r.at_us, r.id", down: true, scan: requests.scan, matches: f.matches,
		place: func(r *RequestRow) []any { return []any{r.AtUs, r.ID[:]} }}
	switch {
	case f.Account != 0:
		l.add("r.account = ", int64(f.Account), true)
	case f.Key != 0:
		l.add("r.api_key = ", f.Key, true)
	case f.Code != "":
		l.add("r.code = ", f.Code, true)
	case f.Model != "":
		l.add("r.model = ", f.Model, true)
	}
	// PostgreSQL takes refusals and accounts to be independent. With both it would read all
	// refusals for an account without refusals.
	if f.Refused && len(l.args) == 0 {
		l.terms = append(l.terms, "r.refused = 1")
	}
	l.within("r.at_us", f.FromUs, f.ToUs)
	if f.Behind.ID != nil {
		l.behind = []any{f.Behind.AtUs, f.Behind.ID}
	}
	found, last, err := l.readPage(s, most)
	if last != nil {
		next = last.place()
	}
	return found, next, err
}

func (r *RequestRow) place() *RequestPlace { return &RequestPlace{r.AtUs, r.ID[:]} }

func (f *RequestFilter) matches(r *RequestRow) bool {
	return (f.Account == 0 || r.Account == f.Account) && (f.Key == 0 || r.Key == f.Key) && (f.Code == "" || r.Code == f.Code) &&
		(f.Model == "" || r.Model == f.Model) && (!f.Refused || r.Refused) && (f.Matches == nil || f.Matches(r))
}

func (s *sqlStore) Request(id [16]byte) (*RequestRow, error) {
	return requests.find(s, "r.id = $1 ORDER BY r.at_us DESC LIMIT 1", id[:])
}

func (s *sqlStore) PurgeRequests(beforeUs int64, most int) (int, error) {
	return s.affect(`DELETE FROM request WHERE (id, at_us) IN (
		SELECT id, at_us FROM request WHERE at_us < $1 ORDER BY at_us, id LIMIT $2)`, beforeUs, most)
}

func (s *sqlStore) RequestsByAccount() (counts map[uint32]int, err error) {
	err = s.read(func(q *Query) error {
		counts = map[uint32]int{}
		return each2(q, func(account uint32, n int) { counts[account] = n },
			"SELECT account, count(*) FROM request GROUP BY account")
	})
	return counts, err
}

func (s *sqlStore) PurgeRequestsOf(account uint32, most int) (int, error) {
	return s.affect(sqlPurgeRequestsOf, int64(account), most)
}

const sqlPurgeRequestsOf = `DELETE FROM request WHERE (id, at_us) IN (
	SELECT id, at_us FROM request WHERE account = $1 ORDER BY at_us, id LIMIT $2)`

// ChargeSearch says where the charge of a request may be.
type ChargeSearch struct {
	Request [16]byte
	Account uint32 // 0: unknown
	FromUs  int64  // when the request began; 0: unknown, the account must be known
	ToUs    int64  // when it had ended
	Most    uint64 // pages that are opened
}

// ErrManyPages ends a search for a charge.
var ErrManyPages = errors.New("the charge may be in pages that were not searched")

// pagesAtOnce is how many pages a search opens at a time, of at most 16 KB each.
const pagesAtOnce = 64

// FindCharge opens pages in the order in which they end, from the begin of the request on: the
// charge is in one of the first. All requests of a page ended in the same hour.
func (s *sqlStore) FindCharge(c ChargeSearch) (found *journal.Record, err error) {
	err = s.read(func(q *Query) error {
		found = nil
		for looked := uint64(0); ; looked += pagesAtOnce {
			if looked >= c.Most {
				return ErrManyPages
			}
			pages, err := list(q, func(p *journal.Page) []any {
				return []any{&p.Account, &p.Node, &p.First, &p.Last, &p.Requests, &p.Data}
			}, c.text(looked), c.args()...)
			if err != nil {
				return err
			}
			for i := range pages {
				err := pages[i].Each(q.s.before, func(r *journal.Record) error {
					if r.RequestID == c.Request {
						one := *r
						found = &one
						return errFound
					}
					return nil
				})
				if errors.Is(err, errFound) {
					return nil
				}
				if err != nil {
					return err
				}
			}
			if len(pages) < pagesAtOnce {
				return nil
			}
		}
	})
	return found, err
}

func (c *ChargeSearch) text(offset uint64) string {
	where, order := "account = $1", "first_us DESC, node DESC, seq_first DESC"
	switch {
	case c.FromUs != 0 && c.Account != 0:
		where, order = "account = $1 AND first_us >= $2 AND first_us <= $4 AND last_us >= $3", "first_us, node, seq_first"
	case c.FromUs != 0:
		where, order = "last_us >= $1 AND last_us <= $2 AND first_us <= $3", "last_us, first_us, account, node, seq_first"
	}
	return fmt.Sprintf("SELECT account, node, seq_first, seq_last, requests, data FROM usage_page WHERE %s AND node > 0 "+
		"ORDER BY %s LIMIT %d OFFSET %d", where, order, pagesAtOnce, offset)
}

func (c *ChargeSearch) args() []any {
	switch {
	case c.FromUs != 0 && c.Account != 0:
		return []any{int64(c.Account), c.FromUs - journal.HourUs, c.FromUs, c.ToUs}
	case c.FromUs != 0:
		return []any{c.FromUs, c.ToUs + journal.HourUs, c.ToUs}
	}
	return []any{int64(c.Account)}
}

func (s *sqlStore) FindKeyID(number int64) (string, error) {
	id, err := value[string](s, "SELECT id FROM api_key WHERE no = $1", number)
	return id, noRow(err)
}
