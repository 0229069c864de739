package report

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// StatementQuery asks for the movements of an account's balance in one currency.
type StatementQuery struct {
	Account  string         `json:"account"` // id or name
	Currency money.Currency `json:"currency"`
	From     time.Time      `json:"from,omitzero"` // from then on; zero: from the beginning
	To       time.Time      `json:"to,omitzero"`   // before then; zero: up to now
	After    int64          `json:"after,omitempty"`
	Most     int            `json:"most,omitempty"` // postings looked at; 0: 1000
}

// Statement is a part of the movements of a balance, in the order in which the store has booked
// it. A charge or refund counts at its own time, so that at the ends of a period a line may
// be missing that was booked in it, or the other way round: Opening is the balance after
// all lines before From, and with the lines of all parts it gives the balance at To.
type Statement struct {
	Opening money.Nano      `json:"opening"` // only of the first part
	Lines   []StatementLine `json:"lines"`
	Next    int64           `json:"next,omitempty"` // After of the next part; 0: this is the last

	apart bool // a line outside the period is between the last line and the next
}

// StatementLine is one movement.
type StatementLine struct {
	At      time.Time  `json:"at"`
	Kind    string     `json:"kind"`
	Amount  money.Nano `json:"amount"`         // signed
	Balance money.Nano `json:"balance"`        // after it; with money held or leased to nodes
	Owed    money.Nano `json:"owed,omitempty"` // its change of the account's debt
	Request string     `json:"request,omitempty"`
	Model   string     `json:"model,omitempty"`
	Key     string     `json:"key,omitempty"` // its id
	Ref     string     `json:"ref,omitempty"`
	Memo    string     `json:"memo,omitempty"`
	Reason  string     `json:"reason,omitempty"`

	model, key uint32
}

// Kinds of lines.
const (
	LineCharge     = "CHARGE"
	LineWaived     = "WAIVED" // of charges that came too late: the house has paid
	LineRefund     = "REFUND"
	LineDebt       = "DEBT"       // that was paid
	LineCorrection = "CORRECTION" // debt from a debit or reversal, paid
	LineCredit     = "CREDIT"
	LineTopUp      = "TOP_UP"
	LineReverse    = "REVERSAL" // of a payment that the chain has lost
	LineDebit      = "DEBIT"
	LineGrant      = "GRANT"  // of DIEM for a day
	LineExpire     = "EXPIRE" // the rest of a day
)

// Consumption says whether usage and its reports have the line, too.
func (l *StatementLine) Consumption() bool {
	switch l.Kind {
	case LineCharge, LineWaived, LineRefund, LineDebt:
		return true
	}
	return false
}

// statementMost is how many postings a part looks at, and statementRecords after how many
// records it ends with a posting: a posting of charges has those of a whole batch.
const (
	statementMost    = 1000
	statementRecords = 10_000
)

// Statement reads a part of the statement of the account.
func (a Account) Statement(q StatementQuery) (s *Statement, err error) {
	if place, some := placeOf(q.Currency); !some || place == journal.AnyPlace {
		return nil, fmt.Errorf("cannot list movements in %s: expected %s", q.Currency, money.Expected)
	}
	if q.Most <= 0 || q.Most > statementMost {
		q.Most = statementMost
	}
	err = a.read(func(tx *store.Query) error {
		b := &book{Query: tx, account: a.No, place: money.PlaceOf(q.Currency), to: forever, pages: map[uint32]*openPage{}}
		if !q.From.IsZero() {
			b.from = q.From.UnixMicro()
		}
		if !q.To.IsZero() {
			b.to = q.To.UnixMicro()
		}
		s = &Statement{Lines: []StatementLine{}}
		if err := b.readPart(&q, s); err != nil {
			return err
		}
		return a.nameLines(tx, s.Lines)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the statement of account %s: %w", a.ID, err)
	}
	return s, nil
}

// book reads the postings of an account in one currency.
type book struct {
	*store.Query
	account  uint32
	place    int
	from, to int64                // Unix µs
	latest   map[uint32]uint64    // of each node, the last record that may lie before to
	pages    map[uint32]*openPage // the last page of each node that was opened
	looked   int                  // records
	prunedUs int64                // single requests from before are gone
	late     map[int64][]latePart // by entry
}

// openPage is a page with its records that matter here.
type openPage struct {
	first, last uint64
	list        []journal.Record
}

// bookedPosting is a posting with its entry.
type bookedPosting struct {
	no, id, tsUs               int64
	kind, ref, memo, reason    string
	amount, balance, corrected money.Nano
	node                       uint32
	first, last                uint64
	late, debt                 money.Nano
}

const sqlBooked = `SELECT p.no, e.id, e.ts_us, e.kind, coalesce(e.ref, ''), e.memo, e.reason, p.amount, p.balance_after, p.corrected,
	coalesce(e.node, 0), coalesce(e.seq_first, 0), coalesce(e.seq_last, 0), -coalesce(l.amount, 0), -coalesce(d.amount, 0)
	FROM posting p JOIN entry e ON e.id = p.entry
	LEFT JOIN posting l ON l.entry = p.entry AND l.book = 'late' AND l.account = p.account AND l.currency = p.currency
	LEFT JOIN posting d ON d.entry = p.entry AND d.book = 'debt' AND d.account = p.account AND d.currency = p.currency
	WHERE p.book = 'customer' AND p.account = $1 AND p.currency = $2 AND p.no > $3 ORDER BY p.no LIMIT $4`

const sqlPageAt = `SELECT seq_first, seq_last, requests, data FROM usage_page WHERE account = $1 AND node = $2 AND seq_first >= coalesce(
	(SELECT max(seq_first) FROM usage_page WHERE account = $1 AND node = $2 AND seq_first <= $3), $3)
	AND seq_last >= $3 AND seq_first <= $4 ORDER BY seq_first LIMIT 1`

func (b *book) readPart(q *StatementQuery, s *Statement) error {
	if err := b.Prepare(sqlPageAt); err != nil {
		return err
	}
	pruned, err := b.Pruned()
	if err != nil {
		return err
	}
	b.prunedUs = store.SumUs(pruned.Day - 1)
	if q.After == 0 && b.from > 0 {
		if q.After, s.Opening, err = b.openingWithin(); err != nil {
			return err
		}
	}
	if err := b.findLatest(); err != nil {
		return err
	}
	list, err := b.postings(q.After, q.Most)
	if err != nil {
		return err
	}
	for i := range list {
		if err := b.lines(&list[i], s); err != nil {
			return err
		}
		if b.looked >= statementRecords && i+1 < len(list) {
			s.Next = list[i].no
			return nil
		}
	}
	if len(list) == q.Most {
		s.Next = list[len(list)-1].no
	}
	return nil
}

// postings reads the postings behind one.
func (b *book) postings(after int64, most int) (list []bookedPosting, err error) {
	err = b.Each(func(rows *sql.Rows) error {
		var p bookedPosting
		err := rows.Scan(&p.no, &p.id, &p.tsUs, &p.kind, &p.ref, &p.memo, &p.reason, &p.amount, &p.balance, &p.corrected,
			&p.node, &p.first, &p.last, &p.late, &p.debt)
		list = append(list, p)
		return err
	}, sqlBooked, b.account, int64(money.SpendOrder[b.place]), after, most)
	if err == nil {
		err = b.readLate(list)
	}
	return list, err
}

// opening is the balance after all movements before from, and the last posting before any that
// is of the period.
func (b *book) opening() (after int64, sum money.Nano, err error) {
	err = b.Row(`SELECT coalesce(min(CASE WHEN e.ts_us >= $3 THEN p.no END) - 1, max(p.no), 0),
		CAST(coalesce(sum(CASE WHEN e.ts_us < $3 THEN p.amount END), 0) AS {I64})
		FROM posting p JOIN entry e ON e.id = p.entry WHERE p.book = 'customer' AND p.account = $1 AND p.currency = $2`,
		b.account, int64(money.SpendOrder[b.place]), b.from).Scan(&after, &sum)
	if err != nil {
		return 0, 0, err
	}
	first, last, err := b.bookedAround()
	if err != nil {
		return 0, 0, err
	}
	for node := range first {
		if err := b.straddling(node, first[node], last[node], &after, &sum); err != nil {
			return 0, 0, err
		}
	}
	return after, sum, b.lateAround(&after, &sum)
}

// bookedAround is, for each node, the first record that was booked since from, and the last
// that was booked before.
func (b *book) bookedAround() (first, last map[uint32]uint64, err error) {
	first, last = map[uint32]uint64{}, map[uint32]uint64{}
	err = b.Each(func(rows *sql.Rows) error {
		var node uint32
		var since, until int64
		err := rows.Scan(&node, &since, &until)
		first[node], last[node] = uint64(since), uint64(until)
		return err
	}, fmt.Sprintf(`SELECT e.node, coalesce(min(CASE WHEN e.ts_us >= $3 THEN e.seq_first END), %d),
		coalesce(max(CASE WHEN e.ts_us < $3 THEN e.seq_last END), 0)
		FROM posting p JOIN entry e ON e.id = p.entry WHERE p.book = 'customer' AND p.account = $1
		AND p.currency = $2 AND e.kind = 'CHARGE' GROUP BY e.node`, int64(math.MaxInt64)), b.account,
		int64(money.SpendOrder[b.place]), b.from)
	return first, last, err
}

// straddling corrects an opening by records of a node that ended on the other side of from
// than they were booked: later, as is usual, or earlier, after a clock was set back.
func (b *book) straddling(node uint32, first, last uint64, after *int64, sum *money.Nano) error {
	type span struct {
		first, last uint64
		no, tsUs    int64
	}
	var pages, spans []span
	err := b.Each(func(rows *sql.Rows) error {
		var p span
		err := rows.Scan(&p.first, &p.last)
		pages = append(pages, p)
		return err
	}, `SELECT seq_first, seq_last FROM usage_page WHERE account = $1 AND node = $2
		AND (first_us < $3 AND seq_last >= $4 OR last_us >= $3 AND seq_first <= $5) ORDER BY seq_first`, b.account, node, b.from,
		int64(first), int64(last))
	if err != nil || len(pages) == 0 {
		return err
	}
	err = b.Each(func(rows *sql.Rows) error {
		var e span
		err := rows.Scan(&e.first, &e.last, &e.no, &e.tsUs)
		spans = append(spans, e)
		return err
	}, `SELECT e.seq_first, e.seq_last, p.no, e.ts_us FROM posting p JOIN entry e ON e.id = p.entry WHERE p.book = 'customer'
		AND p.account = $1 AND p.currency = $2 AND e.kind = 'CHARGE' AND e.node = $3 AND e.seq_last >= $4 AND e.seq_first <= $5
		ORDER BY e.seq_first`, b.account, int64(money.SpendOrder[b.place]), node, int64(pages[0].first),
		int64(pages[len(pages)-1].last))
	if err != nil {
		return err
	}
	for _, p := range pages {
		err := b.eachRecord(node, p.first, p.last, func(r *journal.Record) {
			i, _ := slices.BinarySearchFunc(spans, r.Seq, func(e span, seq uint64) int { return cmp.Compare(e.last, seq) })
			if i == len(spans) || spans[i].first > r.Seq {
				return // it has nothing in this currency
			}
			switch e := &spans[i]; {
			case e.tsUs >= b.from && r.TimeNs/1000 < b.from:
				*sum -= r.Amounts[b.place]
			case e.tsUs < b.from && r.TimeNs/1000 >= b.from:
				*sum += r.Amounts[b.place]
				*after = min(*after, e.no-1)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *book) findLatest() error {
	if b.to == forever {
		return nil
	}
	b.latest = map[uint32]uint64{}
	return b.Each(func(rows *sql.Rows) error {
		var node uint32
		var last uint64
		err := rows.Scan(&node, &last)
		b.latest[node] = last
		return err
	}, "SELECT node, max(seq_last) FROM usage_page WHERE account = $1 AND first_us < $2 GROUP BY node", b.account, b.to)
}

// eachRecord gives the account's records of a node from first to last.
func (b *book) eachRecord(node uint32, first, last uint64, do func(*journal.Record)) error {
	for first <= last {
		p := b.pages[node]
		if p == nil || first < p.first || first > p.last {
			var err error
			if p, err = b.page(node, first, last); p == nil || err != nil {
				return err
			}
			b.pages[node] = p
		}
		i, _ := slices.BinarySearchFunc(p.list, first, func(r journal.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
		for ; i < len(p.list) && p.list[i].Seq <= last; i++ {
			do(&p.list[i])
		}
		first = p.last + 1
	}
	return nil
}

// page opens the first page with records from first to last, or returns nil.
func (b *book) page(node uint32, first, last uint64) (*openPage, error) {
	page := journal.Page{Account: b.account, Node: node}
	pages := 0
	err := b.Each(func(rows *sql.Rows) error {
		pages++
		return rows.Scan(&page.First, &page.Last, &page.Requests, &page.Data)
	}, sqlPageAt, b.account, node, int64(first), int64(last))
	if pages == 0 || err != nil {
		return nil, err
	}
	p := &openPage{first: page.First, last: page.Last}
	err = page.Each(b.SoldBefore(), func(r *journal.Record) error {
		if r.Amounts[b.place] != 0 || r.Debt != 0 {
			p.list = append(p.list, *r)
		}
		return nil
	})
	return p, err
}

// lines adds the lines of a posting.
func (b *book) lines(p *bookedPosting, s *Statement) error {
	balance := p.balance - p.amount
	rest, owed := p.amount, p.debt
	add := func(l StatementLine, us int64) {
		balance += l.Amount
		rest -= l.Amount
		owed -= l.Owed
		if us < b.from || us >= b.to {
			s.apart = true
			return
		}
		l.At, l.Balance = time.UnixMicro(us).UTC(), balance
		l.Ref, l.Memo = p.ref, p.memo
		if l.Reason == "" {
			l.Reason = p.reason
		}
		if !s.sum(&l) {
			s.Lines = append(s.Lines, l)
		}
		s.apart = false
	}
	line := StatementLine{Kind: p.lineKind(), Amount: p.amount, Owed: p.debt}
	if p.last == 0 && p.corrected == 0 {
		add(line, p.tsUs)
		return nil
	}
	late := b.late[p.id]
	if p.tsUs >= b.to && p.first > b.latest[p.node] && late == nil {
		s.apart = true
		return nil
	}
	for _, part := range late {
		add(StatementLine{Kind: line.Kind, Amount: part.amount, Owed: part.debt, Reason: sumReason}, store.SumUs(part.day))
	}
	owes := b.place == money.InUSD
	err := b.eachRecord(p.node, p.first, p.last, func(r *journal.Record) {
		b.looked++
		if p.node == 0 && r.Hold != uint64(p.id) || r.Amounts[b.place] == 0 && !owes {
			return
		}
		add(b.lineOf(line.Kind, r), r.TimeNs/1000)
	})
	if err != nil {
		return err
	}
	sumUs := p.tsUs
	if p.tsUs <= b.prunedUs {
		sumUs = store.SumUs(calendar.DayOf(p.tsUs * 1000))
	}
	if p.late != 0 {
		add(StatementLine{Kind: LineWaived, Amount: p.late, Reason: "charges came too late: the house has paid"}, sumUs)
	}
	if p.corrected != 0 {
		add(StatementLine{Kind: LineCorrection, Amount: -p.corrected, Owed: -p.corrected, Reason: "debt of a correction is paid"},
			p.tsUs)
	}
	if line.Kind == LineDebt {
		owed = rest
	}
	switch {
	case p.tsUs <= b.prunedUs && (rest != 0 || owed != 0):
		add(StatementLine{Kind: line.Kind, Amount: rest, Owed: owed, Reason: sumReason}, sumUs)
	case rest != 0:
		add(StatementLine{Kind: line.Kind, Amount: rest, Reason: "the single requests are not written yet"}, p.tsUs)
	}
	return nil
}

// lineOf is the line of a request.
func (b *book) lineOf(kind string, r *journal.Record) StatementLine {
	l := StatementLine{Kind: kind, Amount: -money.Nano(r.Moved.Sign()) * r.Amounts[b.place], model: r.Model, key: r.Key}
	if r.RequestID != ([16]byte{}) {
		l.Request = fmt.Sprintf("%x", r.RequestID)
	}
	switch {
	case r.Moved == journal.Repaid:
		l.Owed = l.Amount
	case b.place == money.InUSD:
		l.Owed = r.Debt
	}
	return l
}

// lineKind is the kind of a posting's lines.
func (p *bookedPosting) lineKind() string {
	payment := len(p.ref) > 8 && p.ref[:8] == "payment:"
	switch {
	case p.kind == "TOP_UP" && !payment:
		return LineCredit
	case p.kind == "ADJUST" && payment:
		return LineReverse
	case p.kind == "ADJUST":
		return LineDebit
	}
	return p.kind
}

// nameLines puts the names of models and the ids of keys to lines.
func (a Account) nameLines(q *store.Query, lines []StatementLine) error {
	name, err := a.names(q, func(yield func(uint32) bool) {
		for i := range lines {
			if !yield(lines[i].model) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	keys := map[int64]*KeySpend{}
	for i := range lines {
		keys[int64(lines[i].key)] = &KeySpend{}
	}
	if err := nameKeys(q, a.No, keys); err != nil {
		return err
	}
	for i := range lines {
		lines[i].Model, lines[i].Key = name(lines[i].model), keys[int64(lines[i].key)].ID
	}
	return nil
}
