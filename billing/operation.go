package billing

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Operator is a ledger that operations are carried out on: a [Ledger], or a client of the
// server that has it open. A Ledger that another process has open refuses to be opened.
type Operator interface {
	Close() error
	operator()
}

func (l *Ledger) operator()        {}
func (c *controlClient) operator() {}

// Operation is an action of an operator on a ledger. Its type is its query, in JSON, and A its
// answer. Every operation is a row of the table below, which the control socket and the
// command line share.
type Operation[A any] interface {
	carryOut(l *Ledger) (A, error)
}

// Nothing is the answer of operations that only succeed or fail.
type Nothing struct{}

// Do carries an operation out. Errors keep their identity through the control socket.
func Do[A any](op Operator, q Operation[A]) (answer A, err error) {
	switch at := op.(type) {
	case *Ledger:
		return perform(at, q)
	case *controlClient:
		err = at.call(q, &answer)
		return answer, err
	}
	return answer, errors.New("this is not an operator of a ledger")
}

// perform carries an operation out on the ledger itself. Every operation passes here,
// whichever way it came. So this is the place where a change will be found by its
// reference when it is repeated, and where its entry in the audit log will be written.
func perform[A any](l *Ledger, q Operation[A]) (A, error) {
	if operationOf[fmt.Sprintf("%T", q)].mode&alone != 0 {
		l.operating.Lock()
		defer l.operating.Unlock()
	}
	return q.carryOut(l)
}

// Right is the permission that an operation needs.
type Right uint8

// Rights in rising order; each includes those before it.
const (
	MayList    Right = 1 + iota // reads all accounts
	MaySupport                  // also suspends and revokes
	MayBook                     // also works on accounts and money
	MayOwn                      // all
)

// mode says how an operation runs.
type mode uint8

const (
	alone   mode = 1 << iota // no other change by an operator runs at the same time
	lasting                  // it may take hours
)

// operationRow is a row of the table.
type operationRow struct {
	name  string
	right Right
	mode  mode
	query string
	serve func(l *Ledger, query []byte) (any, error)
}

// row makes the row of an operation from its query.
func row[A any, Q Operation[A]](name string, right Right, mode mode, q Q) *operationRow {
	return &operationRow{name, right, mode, fmt.Sprintf("%T", q), func(l *Ledger, query []byte) (any, error) {
		var q Q
		if len(query) > 0 {
			if err := json.Unmarshal(query, &q); err != nil {
				return nil, fmt.Errorf("cannot read the query of %s: %w", name, err)
			}
		}
		return perform[A](l, q)
	}}
}

// operations are all that an operator does to a ledger. Their queries are described where
// they are carried out. Those that are not alone but change something lock by themselves,
// since others than operators do the same.
var operations = []*operationRow{
	row("create_account", MayBook, alone, CreateAccount{}),
	row("list_accounts", MayList, 0, ListAccounts{}),
	row("credit_account", MayBook, alone, CreditAccount{}),
	row("refund_account", MayBook, alone, RefundAccount{}),
	row("debit_account", MayBook, alone, DebitAccount{}),
	row("set_allowance", MayBook, alone, SetAllowance{}),
	row("set_status", MaySupport, alone, SetStatus{}),
	row("create_key", MayBook, alone, CreateKey{}),
	row("list_keys", MayList, 0, ListKeys{}),
	row("change_key", MayBook, 0, ChangeKey{}),
	row("revoke_key", MaySupport, alone, RevokeKey{}),
	row("report_usage", MayList, 0, ReportUsage{}),
	row("read_statement", MayList, 0, ReadStatement{}),
	row("add_review", MayBook, alone, AddReview{}),
	row("hide_review", MaySupport, alone, HideReview{}),
	row("list_reviews", MayList, 0, ListReviews{}),
	row("list_jobs", MayList, 0, ListJobs{}),
	row("get_job", MayList, 0, GetJob{}),
	row("refund_job", MayBook, 0, RefundJob{}),
	row("list_wallets", MayList, 0, ListWallets{}),
	row("get_wallet", MayList, 0, GetWallet{}),
	row("link_wallet", MayBook, alone, LinkWallet{}),
	row("unlink_wallet", MayBook, alone, UnlinkWallet{}),
	row("list_payments", MayList, 0, ListPayments{}),
	row("get_payment", MayList, 0, GetPayment{}),
	row("resolve_payment", MayBook, 0, ResolvePayment{}),
	row("assign_payment", MayBook, 0, AssignPayment{}),
	row("list_nodes", MayList, 0, ListNodes{}),
	row("release_node", MayOwn, 0, ReleaseNode{}),
	row("verify", MayList, lasting, Verify{}),
	row("back_up", MayOwn, lasting, BackUp{}),
}

var (
	operationNamed = map[string]*operationRow{}
	operationOf    = map[string]*operationRow{} // by the type of the query
)

func init() {
	for _, o := range operations {
		operationNamed[o.name], operationOf[o.query] = o, o
	}
}
