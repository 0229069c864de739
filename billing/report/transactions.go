package report

import (
	"cmp"
	"database/sql"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"farebox/billing/money"
	"farebox/billing/store"
)

// Transaction is a change of the USD of an account: a line of a request that was
// charged, or money that came in, went out or paid a debt (addendum 14.5).
type Transaction struct {
	ID     string
	Type   string // TOP_UP, CHARGE or REFUND; a reversal has the type of its transaction
	Amount money.Nano
	// BalanceAfter is the account's balance then: its balance of now without all
	// later transactions, in the order of time. Transactions that several nodes
	// brought into the books at the same moment may have come in another order.
	BalanceAfter money.Nano
	AtUs         int64
	Request      *[16]byte // nil: no request
	Model        string
}

// Transactions are some of an account, the newest first.
type Transactions struct {
	Balance money.Nano // of USD now, held or not
	List    []Transaction
	More    bool // there are older ones
	Behind  bool // the newest requests are not in it yet
}

// MaxTransactions is how many of the newest transactions of an account can be listed.
const MaxTransactions = 10_000

// ErrTooDeep asks for older transactions than can be listed.
var ErrTooDeep = fmt.Errorf("only the newest %d transactions can be listed; the usage history has all requests",
	MaxTransactions)

// Transactions lists limit transactions behind the offset newest ones. Its cost
// depends on offset and limit, not on the account's number of them.
func (a Account) Transactions(limit, offset int) (t Transactions, err error) {
	if limit < 1 || offset < 0 || offset > MaxTransactions-limit {
		return t, ErrTooDeep
	}
	behind := !a.Newest.Detail()
	err = a.read(func(q *store.Query) error {
		t = Transactions{Behind: behind}
		return a.transactions(q, limit, offset, &t)
	})
	if err != nil {
		return Transactions{}, fmt.Errorf("cannot list the transactions of account %s: %w", a.ID, err)
	}
	return t, nil
}

func (a Account) transactions(q *store.Query, limit, offset int, t *Transactions) error {
	most := offset + limit + 1
	x, err := newIndex(q, a.No, money.InUSD, nil)
	if err != nil {
		return err
	}
	var charges List
	if err := x.page(&ListQuery{Currency: money.USD, Limit: int64(most), Page: 1}, &charges); err != nil {
		return err
	}
	all, err := a.moved(q, most)
	if err != nil {
		return err
	}
	for i := range charges.Entries {
		all = append(all, a.chargeOf(&charges.Entries[i]))
	}
	slices.SortStableFunc(all, func(a, b Transaction) int { return cmp.Compare(b.AtUs, a.AtUs) })
	err = q.Row("SELECT coalesce((SELECT avail + escrow FROM bucket WHERE account = $1 AND currency = 1 AND day = 0), 0)",
		a.No).Scan(&t.Balance)
	if err != nil {
		return err
	}
	unseen, whole, err := x.unseen()
	if err != nil {
		return err
	}
	t.Behind = t.Behind || unseen != 0 || !whole
	balance := t.Balance + unseen
	for i := range all {
		all[i].BalanceAfter = balance
		balance -= all[i].Amount
	}
	t.More = len(all) > offset+limit
	t.List = all[min(offset, len(all)):min(offset+limit, len(all))]
	return a.nameCharges(q, t.List, charges.Entries)
}

// chargeOf is the transaction of a line of consumption. Its model is not named yet.
func (a Account) chargeOf(e *Entry) Transaction {
	t := Transaction{ID: a.transactionID(fmt.Sprintf("charge %d %d %d", e.At.Node, e.At.Seq, e.At.Line)),
		Type: "CHARGE", Amount: -e.Amount, AtUs: e.AtUs}
	if e.Moved.Sign() < 0 {
		t.Type = "REFUND"
	}
	if e.OfRequest() {
		t.Request = &e.RequestID
	}
	return t
}

// transactionID is an id that says nothing of the ledger, and is always the same.
func (a Account) transactionID(of string) string {
	const bytes = 15
	sum := a.source.Sign([]byte("transaction\x00" + a.ID + "\x00" + of))
	return "txn_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:bytes]))
}

// nameCharges puts models' names to the charges of a page, and only to these.
func (a Account) nameCharges(q *store.Query, page []Transaction, entries []Entry) error {
	if err := a.nameModels(q, entries); err != nil {
		return err
	}
	names := make(map[*[16]byte]string, len(entries))
	for i := range entries {
		names[&entries[i].RequestID] = entries[i].Model
	}
	for i := range page {
		if page[i].Request != nil {
			page[i].Model = names[page[i].Request]
		}
	}
	return nil
}

// moved are the newest transactions that are not consumption.
func (a Account) moved(q *store.Query, most int) (all []Transaction, err error) {
	err = q.Each(func(rows *sql.Rows) error {
		var t Transaction
		var id int64
		var kind, ref string
		err := rows.Scan(&id, &t.AtUs, &kind, &ref, &t.Amount)
		t.Type = "CHARGE" // a correction, a reversed payment, or the payment of debt from them
		if kind == "TOP_UP" || t.Amount > 0 {
			t.Type = "TOP_UP"
		}
		if payment, rest, ok := strings.Cut(strings.TrimPrefix(ref, "payment:"), ":"); ok && rest == "1" &&
			strings.HasPrefix(ref, "payment:") {
			t.ID = payment // as its payer read it
		} else {
			t.ID = a.transactionID(fmt.Sprint("entry ", id))
		}
		all = append(all, t)
		return err
	}, `SELECT e.id, e.ts_us, e.kind, coalesce(e.ref, ''), CASE WHEN e.kind = 'DEBT' THEN -p.corrected ELSE p.amount END
		FROM posting p JOIN entry e ON e.id = p.entry
		WHERE p.account = $1 AND p.moved <> 0 AND p.currency = 1 AND p.amount <> 0 AND e.kind <> 'REFUND'
		AND (e.kind <> 'DEBT' OR p.corrected <> 0) ORDER BY p.entry DESC LIMIT $2`, a.No, most)
	return all, err
}

// unseenMost is how many of the last entries of the books are looked through for
// charges whose requests are not written yet.
const unseenMost = 4096

// unseen is the sum of charges that the balance has and the detail does not: of other
// nodes, or while this one writes. whole is false where that is not known.
func (x *index) unseen() (sum money.Nano, whole bool, err error) {
	seen, err := detailed(x.Query)
	if err != nil {
		return 0, false, err
	}
	first := map[uint32]uint64{}
	last := fmt.Sprintf("(SELECT id, node, kind, seq_first, seq_last FROM entry ORDER BY id DESC LIMIT %d) AS e",
		unseenMost)
	err = x.Each(func(rows *sql.Rows) error {
		var node uint32
		var from, to uint64
		var n money.Nano
		if err := rows.Scan(&node, &from, &to, &n); err != nil || to <= seen[node] {
			return err
		}
		sum += n
		if first[node] == 0 || from < first[node] {
			first[node] = from
		}
		return nil
	}, "SELECT e.node, e.seq_first, e.seq_last, -p.amount FROM "+last+` JOIN posting p ON p.entry = e.id
		AND p.book IN ('customer', 'late') AND p.account = $1 AND p.currency = 1 WHERE e.kind = 'CHARGE'`, x.account)
	if err != nil {
		return 0, false, err
	}
	// A batch of charges may be written in part.
	for node, from := range first {
		if from > seen[node] {
			continue
		}
		n, err := x.takenSince(node, from)
		if err != nil {
			return 0, false, err
		}
		sum -= n
	}
	whole, err = x.reaches(last, seen)
	return sum, whole, err
}

// takenSince is the sum of a node's charges from a record on.
func (x *index) takenSince(node uint32, from uint64) (sum money.Nano, err error) {
	pages, err := x.pagesSince(node, from)
	if err != nil {
		return 0, err
	}
	for i := range pages {
		list, err := x.open(&pages[i])
		if err != nil {
			return 0, err
		}
		for j := range list {
			if list[j].At.Seq >= from {
				sum += list[j].Amount
			}
		}
	}
	return sum, nil
}

func (x *index) pagesSince(node uint32, from uint64) (pages []pageRef, err error) {
	err = x.Each(func(rows *sql.Rows) error {
		p := pageRef{node: node}
		err := rows.Scan(&p.first, &p.last, &p.requests, &p.n)
		pages = append(pages, p)
		return err
	}, "SELECT seq_first, seq_last, requests, "+countColumn(x.place)+
		" FROM usage_page WHERE account = $1 AND node = $2 AND seq_last >= $3", x.account, node, from)
	return pages, err
}

// reaches says that the last entries go back to where the detail of every node ends.
func (x *index) reaches(last string, seen map[uint32]uint64) (whole bool, err error) {
	var entries int
	if err := x.Row("SELECT count(*) FROM " + last).Scan(&entries); err != nil || entries < unseenMost {
		return err == nil, err
	}
	whole = true
	behind := map[uint32]bool{}
	err = x.Each(func(rows *sql.Rows) error {
		var node uint32
		var seq uint64
		err := rows.Scan(&node, &seq)
		behind[node] = seq > seen[node]
		return err
	}, "SELECT node, seq FROM applied WHERE sink = 'ledger'")
	if err != nil {
		return false, err
	}
	err = x.Each(func(rows *sql.Rows) error {
		var node uint32
		var from uint64
		err := rows.Scan(&node, &from)
		if behind[node] && from > seen[node]+1 {
			whole = false
		}
		return err
	}, "SELECT e.node, min(e.seq_first) FROM "+last+" WHERE e.kind = 'CHARGE' GROUP BY e.node")
	return whole, err
}
