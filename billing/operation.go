package billing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Operator is a ledger that executes operations: a [Ledger], or a client of the
// server that has it open. A Ledger that another process has open refuses to be opened.
type Operator interface {
	Close() error
	operator()
}

func (l *Ledger) operator()        {}
func (c *controlClient) operator() {}

// Operation is an action of an operator on a ledger. Its type is its query, in JSON, and A its
// answer. Every operation is a row of the table below, which the operator's HTTP API, the
// control socket and the command line share.
type Operation[A any] interface {
	carryOut(l *Ledger, c *call) (A, error)
}

// Nothing is the answer of operations that only succeed or fail.
type Nothing struct{}

// Do executes an operation. Errors keep their identity through the control socket.
func Do[A any](op Operator, q Operation[A]) (answer A, err error) {
	switch at := op.(type) {
	case *Ledger:
		return perform(at, &call{Act: local(), ctx: context.Background()}, q)
	case *controlClient:
		err = at.call(q, &answer)
		return answer, err
	}
	return answer, errors.New("this is not an operator of a ledger")
}

// Beside gives an operator that answers while op executes an operation, and its end.
func Beside(op Operator) (beside Operator, end func() error, err error) {
	c, ok := op.(*controlClient)
	if !ok {
		return op, func() error { return nil }, nil
	}
	c, err = dialControl(c.dir)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

// known refuses members that the query does not have.
func (o *operationRow) known(query []byte) error {
	if len(query) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(query, &members); err != nil {
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	for name := range members {
		if !slices.Contains(o.members, name) {
			return fmt.Errorf("%w: %s has no member %q", ErrQuery, o.name, name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(query))
	d.DisallowUnknownFields()
	if err := d.Decode(reflect.New(o.query).Interface()); err != nil {
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	return nil
}

// All is [Do] for a list without a bound: all that it has.
func All[I any](op Operator, q Operation[List[I]]) ([]I, error) {
	list, err := Do(op, q)
	return list.Items, err
}

// Right is the permission that an operation needs, and the role that has it.
type Right uint8

// Rights in rising order; each includes those before it.
const (
	MayList    Right = 1 + iota // reads all accounts
	MaySupport                  // also suspends, revokes, and credits within a daily limit
	MayBook                     // also works on accounts, keys and money
	MayOwn                      // all
)

var rightNames = [...]string{MayList: "read-only", MaySupport: "support", MayBook: "billing", MayOwn: "owner"}

// String is the name of the role: read-only, support, billing or owner.
func (r Right) String() string { return rightNames[min(int(r), len(rightNames)-1)] }

// MarshalText writes the name of the role.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a role.
func (r *Right) UnmarshalText(b []byte) error {
	i := slices.Index(rightNames[:], string(b))
	if i < 1 {
		return fmt.Errorf("cannot use the role %q: expected read-only, support, billing or owner", b)
	}
	*r = Right(i)
	return nil
}

// mode says how an operation runs.
type mode uint8

const (
	alone   mode = 1 << iota // no other change by an operator runs at the same time
	lasting                  // it may take hours
	change                   // it changes the store
	urgent                   // a change that cannot wait for a clock to be set
)

// operationRow is a row of the table.
type operationRow struct {
	name          string
	right         Right
	mode          mode
	method, path  string
	query, answer reflect.Type
	members       []string // of the query
	serve         func(l *Ledger, c *call, query []byte) (any, error)
}

// OperationInfo is a row of the table as the HTTP API sees it. Parameters in braces in Path
// are members of the query.
type OperationInfo struct {
	Name          string
	Right         Right
	Method, Path  string
	Change        bool // it changes the store
	Query, Answer reflect.Type
}

// Operations are all operations, in the order of the table.
func Operations() []OperationInfo {
	list := make([]OperationInfo, len(operations))
	for i, o := range operations {
		list[i] = OperationInfo{o.name, o.right, o.method, o.path, o.mode&change != 0, o.query, o.answer}
	}
	return list
}

// row makes the row of an operation from its query. at is its method and path in the HTTP API.
func row[A any, Q Operation[A]](name string, right Right, mode mode, at string, q Q) *operationRow {
	method, path, _ := strings.Cut(at, " ")
	o := &operationRow{name: name, right: right, mode: mode, method: method, path: path,
		query: reflect.TypeFor[Q](), answer: reflect.TypeFor[A]()}
	o.members = membersOf(o.query)
	o.serve = func(l *Ledger, c *call, query []byte) (any, error) {
		var q Q
		if len(query) > 0 {
			if err := json.Unmarshal(query, &q); err != nil {
				return nil, fmt.Errorf("cannot read the query of %s: %w", name, err)
			}
		}
		if p, ok := any(&q).(interface{ bound() error }); ok && c.named {
			if err := p.bound(); err != nil {
				return nil, err
			}
		}
		return perform[A](l, c, q)
	}
	return o
}

// membersOf are the JSON names of a struct's fields.
func membersOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous:
			names = append(names, membersOf(f.Type)...)
		case name == "":
			names = append(names, f.Name)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}

// operations are all that an operator does to a ledger. Their queries are described where
// they are carried out. Those that change something and are not alone lock by themselves,
// since others than operators do the same.
var operations = []*operationRow{
	row("create_account", MayBook, alone|change, "POST /accounts", CreateAccount{}),
	row("list_accounts", MayList, 0, "GET /accounts", ListAccounts{}),
	row("get_account", MayList, 0, "GET /accounts/{account}", GetAccount{}),
	row("change_account", MayBook, alone|change, "PATCH /accounts/{account}", ChangeAccount{}),
	row("suspend_account", MaySupport, alone|change|urgent, "POST /accounts/{account}/suspend", SuspendAccount{}),
	row("resume_account", MayBook, alone|change, "POST /accounts/{account}/resume", ResumeAccount{}),
	row("close_account", MayBook, alone|change, "POST /accounts/{account}/close", CloseAccount{}),
	row("erase_account", MayOwn, change, "POST /accounts/{account}/erase", EraseAccount{}),
	row("credit_account", MaySupport, alone|change, "POST /accounts/{account}/credits", CreditAccount{}),
	row("debit_account", MayBook, alone|change, "POST /accounts/{account}/debits", DebitAccount{}),
	row("refund_account", MayBook, alone|change, "POST /accounts/{account}/refunds", RefundAccount{}),
	row("set_allowance", MayBook, alone|change, "PUT /accounts/{account}/allowance", SetAllowance{}),
	row("read_statement", MayList, 0, "GET /accounts/{account}/statement", ReadStatement{}),
	row("create_key", MayBook, alone|change, "POST /accounts/{account}/keys", CreateKey{}),
	row("list_keys", MayList, 0, "GET /keys", ListKeys{}),
	row("change_key", MayBook, change, "PATCH /keys/{id}", ChangeKey{}),
	row("rotate_key", MayBook, alone|change, "POST /keys/{id}/rotate", RotateKey{}),
	row("revoke_key", MaySupport, alone|change|urgent, "POST /keys/{id}/revoke", RevokeKey{}),
	row("report_usage", MayList, 0, "GET /usage", ReportUsage{}),
	row("list_requests", MayList, 0, "GET /requests", ListRequests{}),
	row("get_request", MayList, 0, "GET /requests/{id}", GetRequest{}),
	row("list_refusals", MayList, 0, "GET /refusals", ListRefusals{}),
	row("money_in", MayList, 0, "GET /money-in", MoneyIn{}),
	row("liability", MayList, 0, "GET /liability", Liability{}),
	row("revenue", MayList, 0, "GET /revenue", Revenue{}),
	row("add_review", MayBook, alone|change, "POST /reviews", AddReview{}),
	row("hide_review", MaySupport, alone|change, "POST /reviews/{id}/hide", HideReview{}),
	row("list_reviews", MayList, 0, "GET /reviews", ListReviews{}),
	row("list_jobs", MayList, 0, "GET /jobs", ListJobs{}),
	row("get_job", MayList, 0, "GET /jobs/{id}", GetJob{}),
	row("refund_job", MayBook, change, "POST /jobs/{id}/refund", RefundJob{}),
	row("list_wallets", MayList, 0, "GET /wallets", ListWallets{}),
	row("get_wallet", MayList, 0, "GET /wallets/{address}", GetWallet{}),
	row("link_wallet", MayBook, alone|change, "PUT /wallets/{address}/link", LinkWallet{}),
	row("unlink_wallet", MayBook, alone|change, "DELETE /wallets/{address}/link", UnlinkWallet{}),
	row("list_payments", MayList, 0, "GET /payments", ListPayments{}),
	row("get_payment", MayList, 0, "GET /payments/{id}", GetPayment{}),
	row("resolve_payment", MayBook, change, "POST /payments/{id}/resolve", ResolvePayment{}),
	row("assign_payment", MayOwn, change, "POST /payments/assign", AssignPayment{}),
	row("list_nodes", MayList, 0, "GET /nodes", ListNodes{}),
	row("release_node", MayOwn, change, "POST /nodes/{node}/release", ReleaseNode{}),
	row("drain_upstream", MayOwn, alone|change|urgent, "POST /upstreams/{upstream}/drain", DrainUpstream{}),
	row("offline_upstream", MayOwn, alone|change|urgent, "POST /upstreams/{upstream}/offline", OfflineUpstream{}),
	row("resume_upstream", MayOwn, alone|change|urgent, "POST /upstreams/{upstream}/resume", ResumeUpstream{}),
	row("create_token", MayOwn, alone|change, "POST /tokens", CreateToken{}),
	row("list_tokens", MayOwn, 0, "GET /tokens", ListTokens{}),
	row("revoke_token", MayOwn, alone|change|urgent, "POST /tokens/{id}/revoke", RevokeToken{}),
	row("list_audit", MayList, 0, "GET /audit", ListAudit{}),
	row("verify", MayBook, lasting, "POST /verify", Verify{}),
	row("get_verification", MayList, 0, "GET /verify", GetVerification{}),
	row("back_up", MayOwn, lasting, "POST /backup", BackUp{}),
}

var (
	operationNamed = map[string]*operationRow{}
	operationOf    = map[reflect.Type]*operationRow{} // by the type of the query
)

func init() {
	for _, o := range operations {
		operationNamed[o.name], operationOf[o.query] = o, o
	}
}
