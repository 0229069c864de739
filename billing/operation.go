package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"farebox/billing/report"
	"farebox/billing/store"
)

// Operator is a ledger that operations are carried out on: a [Ledger], or a client of the
// server that has it open. A Ledger that another process has open refuses to be opened.
type Operator interface {
	Close() error
	operator()
}

func (l *Ledger) operator()        {}
func (c *controlClient) operator() {}

// Operation is what an operator does to a ledger. The type of the query says which one it
// is, and A what it answers. Every operation is a row of the table below, which the control
// socket and the command line share.
type Operation[A any] interface {
	carryOut(l *Ledger) (A, error)
}

// Nothing is the answer of operations that only succeed or fail.
type Nothing struct{}

// Do carries an operation out. Errors keep their identity through the control socket.
func Do[A any](op Operator, q Operation[A]) (answer A, err error) {
	switch at := op.(type) {
	case *Ledger:
		return q.carryOut(at)
	case *controlClient:
		err = at.call(q, &answer)
		return answer, err
	}
	return answer, errors.New("this is not an operator of a ledger")
}

// Right is what a caller needs to be allowed.
type Right uint8

// Rights in rising order; each includes those before it.
const (
	MayList    Right = 1 + iota // reads what everybody did
	MaySupport                  // also suspends and revokes
	MayBook                     // also works on accounts and money
	MayOwn                      // all
)

// operationRow is a row of the table.
type operationRow struct {
	name  string
	right Right
	long  bool // may take hours
	query string
	serve func(l *Ledger, query []byte) (any, error)
}

// row makes the row of an operation from its query.
func row[A any, Q Operation[A]](name string, right Right, q Q) *operationRow {
	return &operationRow{name: name, right: right, query: fmt.Sprintf("%T", q), serve: func(l *Ledger, query []byte) (any, error) {
		var q Q
		if len(query) > 0 {
			if err := json.Unmarshal(query, &q); err != nil {
				return nil, fmt.Errorf("cannot read the query of %s: %w", name, err)
			}
		}
		return q.carryOut(l)
	}}
}

func lasting(o *operationRow) *operationRow {
	o.long = true
	return o
}

// operations are all that an operator does to a ledger.
var operations = []*operationRow{
	row("create_account", MayBook, CreateAccount{}),
	row("list_accounts", MayList, ListAccounts{}),
	row("credit_account", MayBook, CreditAccount{}),
	row("refund_account", MayBook, RefundAccount{}),
	row("debit_account", MayBook, DebitAccount{}),
	row("set_allowance", MayBook, SetAllowance{}),
	row("set_status", MaySupport, SetStatus{}),
	row("create_key", MayBook, CreateKey{}),
	row("list_keys", MayList, ListKeys{}),
	row("change_key", MayBook, ChangeKey{}),
	row("revoke_key", MaySupport, RevokeKey{}),
	row("report_usage", MayList, ReportUsage{}),
	row("read_statement", MayList, ReadStatement{}),
	row("add_review", MayBook, AddReview{}),
	row("hide_review", MaySupport, HideReview{}),
	row("list_reviews", MayList, ListReviews{}),
	row("list_jobs", MayList, ListJobs{}),
	row("get_job", MayList, GetJob{}),
	row("refund_job", MayBook, RefundJob{}),
	row("list_wallets", MayList, ListWallets{}),
	row("get_wallet", MayList, GetWallet{}),
	row("link_wallet", MayBook, LinkWallet{}),
	row("unlink_wallet", MayBook, UnlinkWallet{}),
	row("list_payments", MayList, ListPayments{}),
	row("get_payment", MayList, GetPayment{}),
	row("resolve_payment", MayBook, ResolvePayment{}),
	row("assign_payment", MayBook, AssignPayment{}),
	lasting(row("verify", MayList, Verify{})),
	lasting(row("back_up", MayOwn, BackUp{})),
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

// CreateAccount makes an account without money.
type CreateAccount struct {
	Name string `json:"name"`
}

func (q CreateAccount) carryOut(l *Ledger) (Account, error) { return l.CreateAccount(q.Name) }

// ListAccounts lists all accounts with their money as it is now.
type ListAccounts struct{}

func (ListAccounts) carryOut(l *Ledger) ([]AccountInfo, error) { return l.Accounts() }

// CreditAccount adds money, which first pays what the account owes. A ref that was used
// before for the same credit changes nothing; an empty ref is always a new credit. DIEM are
// for the current UTC day.
type CreditAccount struct {
	Account  string   `json:"account"` // id or name
	Currency Currency `json:"currency"`
	Amount   Nano     `json:"amount"`
	Ref      string   `json:"ref,omitempty"`
	Memo     string   `json:"memo,omitempty"`
}

// Credited is what a credit, refund or debit came to.
type Credited struct {
	Balance Nano `json:"balance"`
	Applied bool `json:"applied"` // false: the ref was booked before
}

func (q CreditAccount) carryOut(l *Ledger) (c Credited, err error) {
	c.Balance, c.Applied, err = l.Credit(q.Account, q.Currency, q.Amount, q.Ref, q.Memo)
	return c, err
}

// RefundAccount is a credit of what a request cost. It needs a ref; one that begins with the
// id of a request counts under the model and key of that.
type RefundAccount CreditAccount

func (q RefundAccount) carryOut(l *Ledger) (c Credited, err error) {
	c.Balance, c.Applied, err = l.Refund(q.Account, q.Currency, q.Amount, q.Ref, q.Memo)
	return c, err
}

// DebitAccount takes money out, as a correction.
type DebitAccount struct {
	CreditAccount
	MayOwe bool `json:"mayOwe,omitempty"` // the account may owe afterwards
}

// Debited is an account after a debit.
type Debited struct {
	Info    AccountInfo `json:"info"`
	Applied bool        `json:"applied"` // false: the ref was booked before
}

func (q DebitAccount) carryOut(l *Ledger) (d Debited, err error) {
	d.Info, d.Applied, err = l.Debit(q.Account, q.Currency, q.Amount, q.Ref, q.Memo, q.MayOwe)
	return d, err
}

// SetAllowance gives an account DIEM for each UTC day.
type SetAllowance struct {
	Account string `json:"account"`
	Daily   Nano   `json:"daily"`
}

func (q SetAllowance) carryOut(l *Ledger) (Account, error) { return l.SetAllowance(q.Account, q.Daily) }

// SetStatus suspends, resumes or closes an account.
type SetStatus struct {
	Account string              `json:"account"`
	Status  store.AccountStatus `json:"status"`
}

func (q SetStatus) carryOut(l *Ledger) (AccountInfo, error) { return l.SetStatus(q.Account, q.Status) }

// CreateKey makes a key.
type CreateKey struct{ NewKey }

// CreatedKey is a new key. Its secret is never shown again.
type CreatedKey struct {
	Info   KeyInfo `json:"info"`
	Secret string  `json:"secret"`
}

func (q CreateKey) carryOut(l *Ledger) (k CreatedKey, err error) {
	k.Info, k.Secret, err = l.CreateKey(q.NewKey)
	return k, err
}

// ListKeys lists the keys of an account (id or name), or of all with "".
type ListKeys struct {
	Account string `json:"account,omitempty"`
}

func (q ListKeys) carryOut(l *Ledger) ([]KeyInfo, error) { return l.Keys(q.Account) }

// ChangeKey changes a key of any account.
type ChangeKey struct {
	ID     string    `json:"id"`
	Change KeyChange `json:"change"`
}

func (q ChangeKey) carryOut(l *Ledger) (KeyInfo, error) { return l.ChangeKey(q.ID, q.Change) }

// RevokeKey makes a key invalid, for good.
type RevokeKey struct {
	ID string `json:"id"`
}

func (q RevokeKey) carryOut(l *Ledger) (Nothing, error) { return Nothing{}, l.RevokeKey(q.ID) }

// ReportUsage adds up what accounts used.
type ReportUsage struct{ report.SumQuery }

func (q ReportUsage) carryOut(l *Ledger) ([]report.Sum, error) { return l.UsageReport(q.SumQuery) }

// ReadStatement lists a part of what moved the balance of an account.
type ReadStatement struct{ report.StatementQuery }

func (q ReadStatement) carryOut(l *Ledger) (*report.Statement, error) {
	return l.Statement(q.StatementQuery)
}

// AddReview adds what somebody says of a character.
type AddReview struct{ NewReview }

func (q AddReview) carryOut(l *Ledger) (ReviewInfo, error) { return l.AddReview(q.NewReview) }

// HideReview hides a review, or shows it again.
type HideReview struct {
	ID   string `json:"id"`
	Hide bool   `json:"hide"`
}

func (q HideReview) carryOut(l *Ledger) (ReviewInfo, error) { return l.HideReview(q.ID, q.Hide) }

// ListReviews lists what is said of a character, or of all with "".
type ListReviews struct {
	Slug string `json:"slug,omitempty"`
}

func (q ListReviews) carryOut(l *Ledger) ([]ReviewInfo, error) { return l.ReviewList(q.Slug) }

// ListJobs lists jobs of an account (id or name), or of all with "", newest first.
type ListJobs struct {
	Account string `json:"account,omitempty"`
	Most    int    `json:"most"`
}

func (q ListJobs) carryOut(l *Ledger) ([]JobInfo, error) { return l.JobList(q.Account, q.Most) }

// GetJob gives one job.
type GetJob struct {
	ID string `json:"id"`
}

func (q GetJob) carryOut(l *Ledger) (JobInfo, error) { return l.JobOf(q.ID) }

// RefundJob gives back what a job cost that has ended.
type RefundJob struct {
	ID string `json:"id"`
}

func (q RefundJob) carryOut(l *Ledger) (JobInfo, error) { return l.GiveJobBack(q.ID) }

// ListWallets lists wallets that spend here.
type ListWallets struct {
	Most int `json:"most"`
}

func (q ListWallets) carryOut(l *Ledger) ([]WalletInfo, error) { return l.WalletList(q.Most) }

// GetWallet gives one wallet, with the account that it spends.
type GetWallet struct {
	Address string `json:"address"`
}

func (q GetWallet) carryOut(l *Ledger) (WalletInfo, error) { return l.WalletOf(q.Address) }

// LinkWallet has a wallet spend another account.
type LinkWallet struct {
	Address string `json:"address"`
	Account string `json:"account"`
	By      string `json:"by"`
}

func (q LinkWallet) carryOut(l *Ledger) (WalletLink, error) {
	return l.LinkWallet(q.Address, q.Account, q.By)
}

// UnlinkWallet has a wallet spend its own account again.
type UnlinkWallet struct {
	Address string `json:"address"`
}

func (q UnlinkWallet) carryOut(l *Ledger) (Nothing, error) {
	return Nothing{}, l.UnlinkWallet(q.Address)
}

// ListPayments lists payments of a wallet, or of all with "", newest first.
type ListPayments struct {
	Wallet string `json:"wallet,omitempty"`
	Open   bool   `json:"open,omitempty"`
	Most   int    `json:"most"`
}

func (q ListPayments) carryOut(l *Ledger) ([]PaymentInfo, error) {
	return l.PaymentList(q.Wallet, q.Open, q.Most)
}

// GetPayment gives one payment.
type GetPayment struct {
	ID string `json:"id"`
}

func (q GetPayment) carryOut(l *Ledger) (PaymentInfo, error) { return l.PaymentOf(q.ID) }

// ResolvePayment decides a payment of unknown outcome.
type ResolvePayment struct {
	ID     string `json:"id"`
	Credit bool   `json:"credit"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

func (q ResolvePayment) carryOut(l *Ledger) (PaymentInfo, error) {
	return l.ResolvePayment(q.ID, q.Credit, q.By, q.Reason)
}

// AssignPayment credits what reached pay_to otherwise to a wallet or an account.
type AssignPayment struct {
	Payment ProvenPayment `json:"payment"`
	To      string        `json:"to"`
	By      string        `json:"by"`
	Reason  string        `json:"reason"`
}

func (q AssignPayment) carryOut(l *Ledger) (PaymentInfo, error) {
	return l.AssignPayment(q.Payment, q.To, q.By, q.Reason)
}

// Verify recounts the books.
type Verify struct{}

func (Verify) carryOut(l *Ledger) (store.Report, error) { return l.Verify() }

// BackUp writes the store to a new file, whose path is absolute.
type BackUp struct {
	Path string `json:"path"`
}

func (q BackUp) carryOut(l *Ledger) (BackupInfo, error) {
	if !filepath.IsAbs(q.Path) {
		return BackupInfo{}, fmt.Errorf("cannot write the backup: %q is not an absolute path", q.Path)
	}
	return l.Backup(q.Path)
}
