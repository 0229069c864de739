package billing

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// ErrNoRequest is a request that was not found.
var ErrNoRequest = errors.New("there is no such request, or its details are not kept any more")

// RequestInfo tells of a request that failed, was refused, ended early or needed several attempts.
type RequestInfo struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`             // when it began
	Node     string    `json:"node,omitempty"` // of a shared store
	Account  string    `json:"account"`        // name
	Key      string    `json:"key,omitempty"`  // id
	Route    string    `json:"route,omitempty"`
	Model    string    `json:"model,omitempty"`
	Status   int       `json:"status"`
	Code     string    `json:"code,omitempty"`  // MORE: the row only counts requests of several kinds
	Cause    string    `json:"cause,omitempty"` // why it ended early
	TookMs   int64     `json:"took_ms"`
	Upstream string    `json:"upstream,omitempty"` // the last one that was asked
	Attempts int       `json:"attempts"`
	Limit    string    `json:"limit,omitempty"` // the limit that refused it
	Flags    []string  `json:"flags"`           // failed, refused, retried, estimated, incomplete, aborted, cut, recovered
	Alike    int64     `json:"alike,omitempty"` // how many more were like it within a second and have no row
}

// RequestAttempt is one attempt at an upstream.
type RequestAttempt struct {
	Upstream string `json:"upstream"`
	Status   int    `json:"status,omitempty"` // 0: there was no answer
	Cause    string `json:"cause,omitempty"`
	EndedMs  int64  `json:"ended_ms"` // since the begin of the request
}

// Sums are those of a refusal for want of money (Shortage), of all currencies together.
type Sums struct {
	Had       *Nano  `json:"had,omitempty"`
	Held      *Nano  `json:"held,omitempty"` // by other requests of the account on its node
	Needed    *Nano  `json:"needed,omitempty"`
	Remaining *Nano  `json:"remaining,omitempty"` // of the key's limit
	Period    string `json:"period,omitempty"`    // of the key's limit
}

// RequestCharge is the charge of a request.
type RequestCharge struct {
	At time.Time `json:"at"`
	money.Amounts
	Debt  Nano          `json:"debt"` // its cost beyond that
	Lines []RequestLine `json:"lines"`
}

// RequestLine is one thing that a request bought.
type RequestLine struct {
	SKU    string `json:"sku"`
	Units  int64  `json:"units"`
	Price  string `json:"price"` // as reports have it: of a million tokens, or of one unit
	Amount Nano   `json:"amount"`
}

// RequestDetail is all that is known of a request.
type RequestDetail struct {
	RequestInfo
	Hold Nano `json:"hold"` // the money held for it; 0 for one that simply succeeded
	Sums
	Tries  []RequestAttempt `json:"tries"`
	Charge *RequestCharge   `json:"charge,omitempty"`
}

// ListRequests lists requests that did not simply succeed, the latest first. A page may have fewer
// requests than its limit, and a next page all the same.
type ListRequests struct {
	Page
	Account  string    `json:"account,omitempty"` // id or name
	Key      string    `json:"key,omitempty"`     // id
	Status   int       `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Model    string    `json:"model,omitempty"`
	Upstream string    `json:"upstream,omitempty"`
	Flag     string    `json:"flag,omitempty"` // one of flags
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
}

func (q ListRequests) carryOut(l *Ledger, _ *call) (list List[RequestInfo], err error) {
	if q.Flag != "" && !slices.Contains(requestFlags, q.Flag) {
		return list, fmt.Errorf("%w: flag is %q; expected one of %v", ErrQuery, q.Flag, requestFlags)
	}
	f := store.RequestFilter{Code: q.Code, Model: q.Model, Refused: q.Flag == "refused", FromUs: toMicro(q.From), ToUs: toMicro(q.To)}
	if q.Status != 0 || q.Upstream != "" || q.Flag != "" {
		f.Matches = func(r *store.RequestRow) bool {
			return (q.Status == 0 || r.Status == q.Status) && (q.Upstream == "" || r.Upstream == q.Upstream) &&
				(q.Flag == "" || slices.Contains(flagsOf(r), q.Flag))
		}
	}
	if q.Key != "" {
		key, err := l.store.KeyByID(q.Key)
		if errors.Is(err, store.ErrNoRow) {
			err = ErrNoKey
		}
		if err != nil {
			return list, fmt.Errorf("cannot list requests: %w", err)
		}
		f.Key = key.No
	}
	if f.Account, err = l.accountNo(q.Account); err != nil {
		return list, fmt.Errorf("cannot list requests: %w", err)
	}
	if err := l.flushRequests(); err != nil {
		return list, err
	}
	nodes, err := l.nodeNames()
	if err != nil {
		return list, err
	}
	return requestPage(l, &q.Page, f, func(l *Ledger, r *store.RequestRow, names accountNames) (RequestInfo, error) {
		info := requestInfo(r, nodes)
		name, err := names.of(l, r.Account)
		info.Account = name
		return info, err
	})
}

// requestPage makes a page of rows.
func requestPage[I any](l *Ledger, p *Page, f store.RequestFilter, describe func(*Ledger, *store.RequestRow, accountNames) (I, error)) (
	list List[I], err error,
) {
	if err = p.after(&f.Behind.AtUs, &f.Behind.ID); err != nil {
		return list, err
	}
	rows, next, err := l.store.Requests(f, p.most())
	if err != nil {
		return list, fmt.Errorf("cannot list requests: %w", err)
	}
	if next != nil {
		list.Next = cursorAt(next.AtUs, next.ID)
	}
	list.Items, err = describeAll(l, rows, describe)
	return list, err
}

// nodeNames are the names of the nodes of a shared store, by their numbers.
func (l *Ledger) nodeNames() (map[uint32]string, error) {
	s, shared := l.store.(store.Shared)
	if !shared {
		return nil, nil
	}
	rows, err := s.Nodes()
	names := make(map[uint32]string, len(rows))
	for i := range rows {
		names[rows[i].No] = rows[i].Name
	}
	return names, err
}

func requestInfo(r *store.RequestRow, nodes map[uint32]string) RequestInfo {
	return RequestInfo{ID: hex.EncodeToString(r.ID[:]), At: fromMicro(r.AtUs), Node: nodes[r.Node], Key: r.KeyID, Route: r.Route,
		Model: r.Model, Status: r.Status, Code: r.Code, Cause: r.Cause, TookMs: r.TookMs, Upstream: r.Upstream, Attempts: r.Attempts,
		Limit: r.LimitBy, Flags: flagsOf(r), Alike: r.Alike}
}

// requestFlags are the flags that a list selects by.
var requestFlags = []string{"failed", "refused", "retried", "estimated", "incomplete", "aborted", "cut", "recovered"}

// flagsOf are the flags of a row.
func flagsOf(r *store.RequestRow) []string {
	list := []string{}
	for i, is := range []bool{r.Status >= 400, r.Refused, r.Attempts > 1, has(r, journal.FlagEstimated), has(r, journal.FlagIncomplete),
		has(r, journal.FlagAborted), has(r, journal.FlagCut), has(r, journal.FlagRecovered)} {
		if is {
			list = append(list, requestFlags[i])
		}
	}
	return list
}

func has(r *store.RequestRow, f journal.Flags) bool { return journal.Flags(r.Flags)&f != 0 }

// sumsOf are there where money or a key's limit was short.
func sumsOf(r *store.RequestRow) (s Sums) {
	if r.Needed == 0 && r.Had == 0 {
		return s
	}
	s.Had, s.Held, s.Needed, s.Period = &r.Had, &r.Held, &r.Needed, r.Period
	if r.Period != "" {
		s.Remaining = &r.Remaining
	}
	return s
}

// GetRequest tells all that is known of a request, also of one that simply succeeded. Its id tells
// when it began, unless it had an Idempotency-Key: then name the account, or the time.
type GetRequest struct {
	ID      string    `json:"id"`
	Account string    `json:"account,omitempty"` // id or name
	At      time.Time `json:"at,omitzero"`       // about when it began
}

func (q GetRequest) carryOut(l *Ledger, _ *call) (d RequestDetail, err error) {
	id, ok := store.RequestOf(q.ID)
	if !ok {
		return d, fmt.Errorf("%w: id is %q; expected 32 hexadecimal digits", ErrQuery, q.ID)
	}
	account, err := l.accountNo(q.Account)
	if err == nil {
		err = l.flushRequests()
	}
	var r *store.RequestRow
	if err == nil {
		r, err = l.store.Request(id)
	}
	switch {
	case err == nil && account != 0 && r.Account != account:
		err = ErrNoRequest
	case err == nil:
		account = r.Account
	case errors.Is(err, store.ErrNoRow):
		r, err = nil, nil
	}
	var charge *journal.Record
	if err == nil {
		charge, err = l.findCharge(id, account, q.At)
	}
	if err == nil && r == nil && charge == nil {
		err = ErrNoRequest
	}
	if err != nil {
		return d, fmt.Errorf("cannot find the request %q: %w", q.ID, err)
	}
	return l.requestDetail(r, charge)
}

// requestDetail joins the rows of two tables. One of them is nil where it has no row.
func (l *Ledger) requestDetail(r *store.RequestRow, charge *journal.Record) (d RequestDetail, err error) {
	nodes, err := l.nodeNames()
	if err != nil {
		return d, err
	}
	if r == nil {
		if r, err = l.rowOf(charge); err != nil {
			return d, err
		}
	}
	d = RequestDetail{RequestInfo: requestInfo(r, nodes), Hold: r.Hold, Sums: sumsOf(r), Tries: []RequestAttempt{}}
	if d.Account, err = (accountNames{}).of(l, r.Account); err != nil {
		return d, err
	}
	if r.Tries != "" {
		if err := json.Unmarshal([]byte(r.Tries), &d.Tries); err != nil {
			return d, fmt.Errorf("cannot read the attempts of a request: %w", err)
		}
	}
	if charge == nil {
		return d, nil
	}
	c := &RequestCharge{At: fromMicro(charge.TimeNs / 1000), Amounts: charge.Amounts.Amounts(), Debt: charge.Debt,
		Lines: []RequestLine{}}
	for _, line := range charge.Lines.All() {
		c.Lines = append(c.Lines, RequestLine{line.Kind.SKU(d.Model), line.Units, string(line.Kind.AppendPrice(nil, line.Price)), line.Cost()})
	}
	d.Charge = c
	return d, nil
}

// rowOf is the row of a request that simply succeeded, made from its charge.
func (l *Ledger) rowOf(c *journal.Record) (*store.RequestRow, error) {
	r := &store.RequestRow{ID: c.RequestID, AtUs: c.TimeNs/1000 - int64(c.TookMs)*1000, Account: c.Account, Key: int64(c.Key),
		Status: int(c.Status), TookMs: int64(c.TookMs), Flags: int64(c.Flags), Attempts: 1}
	var err error
	for _, find := range []func(){
		func() { r.Model, err = l.store.FindModel(c.Model) },
		func() { r.Upstream, err = l.store.FindUpstream(c.Upstream) },
		func() { r.KeyID, err = l.store.FindKeyID(r.Key) },
	} {
		if find(); err != nil && !errors.Is(err, store.ErrNoRow) {
			return r, err
		}
	}
	return r, nil
}

const (
	// chargePages bounds the pages of usage that one search opens, of at most 16 KB each.
	chargePages = 2048
	// chargeSlack is how far the clocks of a node and of its store may differ in a search.
	chargeSlack = time.Minute
	// chargeWithin is how long a request may have taken whose charge is found by time.
	chargeWithin = time.Hour
)

// findCharge finds the charge of a request: by the time in its id or a time nearby, or among the
// latest of its account, or nil.
func (l *Ledger) findCharge(id [16]byte, account uint32, at time.Time) (*journal.Record, error) {
	if err := l.freshDetail(); err != nil {
		return nil, err
	}
	search := store.ChargeSearch{Request: id, Account: account, Most: chargePages}
	began := toMicro(at)
	if began == 0 {
		began = requestTime(id)
	}
	if began > firstRequestUs && began < (l.now()+int64(chargeWithin))/1000 {
		search.FromUs, search.ToUs = began-chargeSlack.Microseconds(), began+chargeWithin.Microseconds()
		r, err := l.store.FindCharge(search)
		if errors.Is(err, store.ErrManyPages) {
			err = fmt.Errorf("%w: too many requests were charged at that time: name the account with account=", ErrQuery)
		}
		if r != nil || err != nil || account == 0 {
			return r, err
		}
		search.FromUs = 0
	}
	if account == 0 {
		return nil, nil
	}
	r, err := l.store.FindCharge(search)
	if errors.Is(err, store.ErrManyPages) {
		err = fmt.Errorf("%w: it is not among the latest requests of the account: name its time with at=", ErrQuery)
	}
	return r, err
}

// freshDetail brings this process's charges into the store, for a second at most.
func (l *Ledger) freshDetail() error {
	if err := l.catchUp(); err != nil || l.journal == nil {
		return err
	}
	p := l.project
	for end := time.Now().Add(freshFor); p.usageSeq.Load() < p.ledgerSeq.Load() && time.Now().Before(end); {
		if err := p.detailChunk(p.ledgerSeq.Load()); err != nil {
			return fmt.Errorf("cannot write the detail of recent requests: %w", err)
		}
	}
	return nil
}

// Refusal is a request that was refused with 402, 403 or 429.
type Refusal struct {
	ID      string    `json:"id"` // of the request
	At      time.Time `json:"at"`
	Account string    `json:"account"`       // name
	Key     string    `json:"key,omitempty"` // id
	Route   string    `json:"route,omitempty"`
	Model   string    `json:"model,omitempty"`
	Status  int       `json:"status"`
	Code    string    `json:"code,omitempty"`
	Limit   string    `json:"limit,omitempty"` // such as balance, key_usd, RPM, account_suspended, account_closed, key_revoked
	Sums
	Alike int64 `json:"alike,omitempty"` // how many more were like it within a second and are not listed
}

// ListRefusals lists requests that were refused with 402, 403 or 429, the latest first.
type ListRefusals struct {
	Page
	Account string    `json:"account,omitempty"` // id or name
	Status  int       `json:"status,omitempty"`
	By      string    `json:"by,omitempty"` // the limit, such as balance, key_usd, RPM
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
}

func (lr ListRefusals) carryOut(l *Ledger, _ *call) (list List[Refusal], err error) {
	f := store.RequestFilter{Refused: true, FromUs: toMicro(lr.From), ToUs: toMicro(lr.To)}
	if lr.Status != 0 || lr.By != "" {
		f.Matches = func(r *store.RequestRow) bool {
			return (lr.Status == 0 || r.Status == lr.Status) && (lr.By == "" || r.LimitBy == lr.By)
		}
	}
	if f.Account, err = l.accountNo(lr.Account); err == nil {
		err = l.flushRequests()
	}
	if err != nil {
		return list, fmt.Errorf("cannot list refusals: %w", err)
	}
	return requestPage(l, &lr.Page, f, refusalInfo)
}

// Refusals lists the refusals of one account for its owner.
func (ac Accounts) Refusals(a *AccountState, p Page, from, to time.Time) (List[Refusal], error) {
	return requestPage(ac.Ledger, &p, store.RequestFilter{Account: a.no, Refused: true, FromUs: toMicro(from), ToUs: toMicro(to)}, refusalInfo)
}

func refusalInfo(l *Ledger, r *store.RequestRow, names accountNames) (Refusal, error) {
	name, err := names.of(l, r.Account)
	return Refusal{ID: hex.EncodeToString(r.ID[:]), At: fromMicro(r.AtUs), Account: name, Key: r.KeyID, Route: r.Route, Model: r.Model,
		Status: r.Status, Code: r.Code, Limit: r.LimitBy, Sums: sumsOf(r), Alike: r.Alike}, err
}
