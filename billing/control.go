package billing

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"farebox/billing/report"
	"farebox/billing/store"
)

// The control socket lets the command line work on the ledger of a running
// server: one JSON object a line and direction, answers in order. It lies in
// the data directory with mode 0600; who can open it can also read the
// database, so it asks for no credential of its own.
const (
	controlName  = "control.sock"
	controlMost  = 16               // connections at a time
	controlLine  = 64 << 10         // bytes of a request
	controlReply = 256 << 20        // bytes of an answer, a list of a million keys
	controlIdle  = 30 * time.Second // between requests
	controlLong  = 6 * time.Hour    // of a recount or backup of a large store
	// unixPathMost is less than the shortest limit of a socket's path (104 bytes).
	unixPathMost = 100
)

// controlRequest is a call of an Operator's method.
type controlRequest struct {
	Op       string              `json:"op"`
	Name     string              `json:"name,omitempty"`
	Account  string              `json:"account,omitempty"`
	Currency Currency            `json:"currency,omitzero"`
	Amount   Nano                `json:"amount,omitzero"`
	Ref      string              `json:"ref,omitempty"`
	Memo     string              `json:"memo,omitempty"`
	Key      *NewKey             `json:"key,omitempty"`
	ID       string              `json:"id,omitempty"`
	Path     string              `json:"path,omitempty"` // absolute
	MayOwe   bool                `json:"mayOwe,omitempty"`
	Status   store.AccountStatus `json:"status,omitzero"`
	Change   *KeyChange          `json:"change,omitempty"`
	Usage    *report.SumQuery    `json:"usage,omitempty"`

	Statement *report.StatementQuery `json:"statement,omitempty"`
	Review    *NewReview             `json:"review,omitempty"`
	Hide      bool                   `json:"hide,omitempty"`
	Most      int                    `json:"most,omitempty"`
	Open      bool                   `json:"open,omitempty"`
	Payment   *ProvenPayment         `json:"payment,omitempty"`
}

type controlResponse struct {
	Error    string        `json:"error,omitempty"`
	Cause    string        `json:"cause,omitempty"` // which known error it is
	Account  Account       `json:"account,omitzero"`
	Accounts []AccountInfo `json:"accounts,omitempty"`
	Info     AccountInfo   `json:"info,omitzero"`
	Usage    []report.Sum  `json:"usage,omitempty"`

	Statement *report.Statement `json:"statement,omitempty"`
	Balance   Nano              `json:"balance,omitzero"`
	Applied   bool              `json:"applied,omitempty"`
	Key       KeyInfo           `json:"key,omitzero"`
	Keys      []KeyInfo         `json:"keys,omitempty"`
	Secret    string            `json:"secret,omitempty"`
	Report    store.Report      `json:"report,omitzero"`
	Backup    BackupInfo        `json:"backup,omitzero"`
	Review    ReviewInfo        `json:"review,omitzero"`
	Reviews   []ReviewInfo      `json:"reviews,omitempty"`
	Job       JobInfo           `json:"job,omitzero"`
	Jobs      []JobInfo         `json:"jobs,omitempty"`
	Wallet    WalletInfo        `json:"wallet,omitzero"`
	Wallets   []WalletInfo      `json:"wallets,omitempty"`
	Link      WalletLink        `json:"link,omitzero"`
	Payment   PaymentInfo       `json:"payment,omitzero"`
	Payments  []PaymentInfo     `json:"payments,omitempty"`
}

// knownErrors keep their identity across the socket.
var knownErrors = map[string]error{"no_account": ErrNoAccount, "no_key": ErrNoKey, "name_taken": ErrNameTaken,
	"suspended": ErrSuspended, "closed": ErrClosed, "no_review": ErrNoReview, "reviewed": ErrReviewed,
	"no_job": ErrNoJob, "job_runs": ErrJobRuns, "job_given": ErrJobGiven,
	"linked": ErrLinked, "not_linked": ErrNotLinked, "funds": ErrFunds, "wallet_key": ErrWalletKey,
	"no_payment": ErrNoPayment, "decided": ErrDecided, "payment_busy": ErrPaymentBusy}

// controlServer serves operators on the control socket.
type controlServer struct {
	op       Operator
	listener net.Listener
	path     string
	places   chan struct{}
	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	done     sync.WaitGroup
}

// ServeControl opens the control socket, until Close.
func (l *Ledger) ServeControl() error {
	path := filepath.Join(l.dir, controlName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	short, release, err := socketPath(path)
	if err != nil {
		return err
	}
	defer release()
	listener, err := net.Listen("unix", short)
	if err != nil {
		return err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	l.control = &controlServer{op: l, listener: listener, path: path, places: make(chan struct{}, controlMost),
		conns: map[net.Conn]bool{}}
	l.control.done.Go(l.control.accept)
	return nil
}

// socketPath gives a name of path that is short enough for a socket.
func socketPath(path string) (short string, release func(), err error) {
	if len(path) <= unixPathMost || runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	return short, func() { _ = dir.Close() }, nil
}

func (s *controlServer) accept() {
	for {
		s.places <- struct{}{}
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = conn.Close()
			return
		}
		s.conns[conn] = true
		s.mu.Unlock()
		s.done.Go(func() { s.serve(conn) })
	}
}

func (s *controlServer) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		<-s.places
	}()
	in := bufio.NewReaderSize(conn, controlLine)
	out := bufio.NewWriter(conn)
	for {
		if conn.SetDeadline(time.Now().Add(controlIdle)) != nil {
			return
		}
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			_ = writeLine(out, &controlResponse{Error: fmt.Sprintf("cannot take a request of more than %d bytes",
				controlLine)})
			return
		}
		if err != nil {
			return
		}
		answer := answerControl(s.op, line)
		if conn.SetDeadline(time.Now().Add(controlIdle)) != nil || writeLine(out, answer) != nil {
			return
		}
	}
}

func writeLine(w *bufio.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, _ = w.Write(append(b, '\n'))
	return w.Flush()
}

// answerControl carries out one request.
func answerControl(op Operator, line []byte) *controlResponse {
	var q controlRequest
	res := &controlResponse{}
	err := json.Unmarshal(line, &q)
	if err != nil {
		err = fmt.Errorf("cannot read the request: %w", err)
	} else {
		err = q.do(op, res)
	}
	if err != nil {
		res = &controlResponse{Error: err.Error()}
		for cause, known := range knownErrors {
			if errors.Is(err, known) {
				res.Cause = cause
			}
		}
	}
	return res
}

func (q *controlRequest) do(op Operator, res *controlResponse) (err error) {
	switch q.Op {
	case "create_account":
		res.Account, err = op.CreateAccount(q.Name)
	case "accounts":
		res.Accounts, err = op.Accounts()
	case "credit":
		res.Balance, res.Applied, err = op.Credit(q.Account, q.Currency, q.Amount, q.Ref, q.Memo)
	case "refund":
		res.Balance, res.Applied, err = op.Refund(q.Account, q.Currency, q.Amount, q.Ref, q.Memo)
	case "debit":
		res.Info, res.Applied, err = op.Debit(q.Account, q.Currency, q.Amount, q.Ref, q.Memo, q.MayOwe)
	case "set_status":
		res.Info, err = op.SetStatus(q.Account, q.Status)
	case "change_key":
		if q.Change == nil {
			return errors.New("cannot change a key: the request has no change")
		}
		res.Key, err = op.ChangeKey(q.ID, *q.Change)
	case "usage_report":
		if q.Usage == nil {
			return errors.New("cannot report usage: the request has no query")
		}
		res.Usage, err = op.UsageReport(*q.Usage)
	case "statement":
		if q.Statement == nil {
			err = errors.New("no statement is asked for")
			break
		}
		res.Statement, err = op.Statement(*q.Statement)
	case "set_allowance":
		res.Account, err = op.SetAllowance(q.Account, q.Amount)
	case "create_key":
		if q.Key == nil {
			return errors.New("cannot create a key: the request has no key")
		}
		res.Key, res.Secret, err = op.CreateKey(*q.Key)
	case "keys":
		res.Keys, err = op.Keys(q.Account)
	case "revoke_key":
		err = op.RevokeKey(q.ID)
	case "add_review":
		if q.Review == nil {
			return errors.New("cannot add a review: the request has no review")
		}
		res.Review, err = op.AddReview(*q.Review)
	case "hide_review":
		res.Review, err = op.HideReview(q.ID, q.Hide)
	case "reviews":
		res.Reviews, err = op.ReviewList(q.Name)
	case "jobs":
		res.Jobs, err = op.JobList(q.Account, q.Most)
	case "job":
		res.Job, err = op.JobOf(q.ID)
	case "refund_job":
		res.Job, err = op.GiveJobBack(q.ID)
	case "wallets":
		res.Wallets, err = op.WalletList(q.Most)
	case "wallet":
		res.Wallet, err = op.WalletOf(q.Name)
	case "link_wallet":
		res.Link, err = op.LinkWallet(q.Name, q.Account, q.Memo)
	case "unlink_wallet":
		err = op.UnlinkWallet(q.Name)
	case "payments":
		res.Payments, err = op.PaymentList(q.Name, q.Open, q.Most)
	case "payment":
		res.Payment, err = op.PaymentOf(q.ID)
	case "credit_payment", "drop_payment":
		res.Payment, err = op.ResolvePayment(q.ID, q.Op == "credit_payment", q.Name, q.Memo)
	case "assign_payment":
		if q.Payment == nil {
			return errors.New("cannot assign a payment: the request has no payment")
		}
		res.Payment, err = op.AssignPayment(*q.Payment, q.Account, q.Name, q.Memo)
	case "verify":
		res.Report, err = op.Verify()
	case "backup":
		res.Backup, err = op.Backup(q.Path)
	default:
		return fmt.Errorf("cannot do %q: the running farebox does not know it; it may be of another version", q.Op)
	}
	return err
}

func (s *controlServer) close() {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	select {
	case <-s.places: // accept may wait for a place
	default:
	}
	s.done.Wait()
	_ = os.Remove(s.path)
}

// controlClient is an Operator on the ledger of a running server.
type controlClient struct {
	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
}

const (
	// operateTries x operatePause is how long a command waits for a server that
	// is starting or stopping.
	operateTries = 100
	operatePause = 50 * time.Millisecond
)

// HasLedger says whether there is an embedded ledger in a directory.
func HasLedger(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, store.DatabaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Operate opens the ledger in dir for an operator: the ledger itself, or, when
// a server has it open (via), a client of that server.
func Operate(dir, brand string) (op Operator, via bool, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, false, err
	}
	for range operateTries {
		l, err := Open(Options{Dir: dir, Brand: brand, idle: true})
		if err == nil {
			return l, false, nil
		}
		if !errors.Is(err, ErrInUse) {
			return nil, false, err
		}
		if c, err := dialControl(dir); err == nil {
			return c, true, nil
		}
		time.Sleep(operatePause)
	}
	return nil, false, fmt.Errorf("%w, but it does not answer on %s", ErrInUse, filepath.Join(dir, controlName))
}

func dialControl(dir string) (*controlClient, error) {
	short, release, err := socketPath(filepath.Join(dir, controlName))
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := net.Dial("unix", short)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(conn, controlReply))
	return &controlClient{conn: conn, in: in, out: bufio.NewWriter(conn)}, nil
}

func (c *controlClient) call(q *controlRequest) (res controlResponse, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := controlIdle
	if q.Op == "verify" || q.Op == "backup" {
		limit = controlLong
	}
	if err := c.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return res, err
	}
	if err := writeLine(c.out, q); err != nil {
		return res, fmt.Errorf("cannot reach the running farebox: %w", err)
	}
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return res, fmt.Errorf("cannot read the running farebox's answer: %w; the command may have succeeded: "+
			"check before you repeat it; a credit with a --ref is booked once", err)
	}
	if err := json.Unmarshal(line, &res); err != nil {
		return controlResponse{}, fmt.Errorf("cannot read the running farebox's answer: %w", err)
	}
	if res.Error != "" {
		return controlResponse{}, &controlError{res.Error, knownErrors[res.Cause]}
	}
	return res, nil
}

// controlError is the server's error with its text and identity.
type controlError struct {
	text  string
	cause error
}

func (e *controlError) Error() string { return e.text }
func (e *controlError) Unwrap() error { return e.cause }

func (c *controlClient) CreateAccount(name string) (Account, error) {
	res, err := c.call(&controlRequest{Op: "create_account", Name: name})
	return res.Account, err
}

func (c *controlClient) Accounts() ([]AccountInfo, error) {
	res, err := c.call(&controlRequest{Op: "accounts"})
	return res.Accounts, err
}

func (c *controlClient) Credit(account string, currency Currency, n Nano, ref, memo string) (Nano, bool, error) {
	res, err := c.call(&controlRequest{Op: "credit", Account: account, Currency: currency, Amount: n,
		Ref: ref, Memo: memo})
	return res.Balance, res.Applied, err
}

func (c *controlClient) Refund(account string, currency Currency, n Nano, ref, memo string) (Nano, bool, error) {
	res, err := c.call(&controlRequest{Op: "refund", Account: account, Currency: currency, Amount: n,
		Ref: ref, Memo: memo})
	return res.Balance, res.Applied, err
}

func (c *controlClient) Debit(account string, currency Currency, n Nano, ref, reason string, mayOwe bool) (AccountInfo,
	bool, error) {
	res, err := c.call(&controlRequest{Op: "debit", Account: account, Currency: currency, Amount: n,
		Ref: ref, Memo: reason, MayOwe: mayOwe})
	return res.Info, res.Applied, err
}

func (c *controlClient) SetStatus(account string, s store.AccountStatus) (AccountInfo, error) {
	res, err := c.call(&controlRequest{Op: "set_status", Account: account, Status: s})
	return res.Info, err
}

func (c *controlClient) ChangeKey(id string, change KeyChange) (KeyInfo, error) {
	res, err := c.call(&controlRequest{Op: "change_key", ID: id, Change: &change})
	return res.Key, err
}

func (c *controlClient) SetAllowance(account string, daily Nano) (Account, error) {
	res, err := c.call(&controlRequest{Op: "set_allowance", Account: account, Amount: daily})
	return res.Account, err
}

func (c *controlClient) CreateKey(n NewKey) (KeyInfo, string, error) {
	res, err := c.call(&controlRequest{Op: "create_key", Key: &n})
	return res.Key, res.Secret, err
}

func (c *controlClient) Keys(account string) ([]KeyInfo, error) {
	res, err := c.call(&controlRequest{Op: "keys", Account: account})
	return res.Keys, err
}

func (c *controlClient) RevokeKey(id string) error {
	_, err := c.call(&controlRequest{Op: "revoke_key", ID: id})
	return err
}

func (c *controlClient) Close() error { return c.conn.Close() }

func (c *controlClient) Verify() (store.Report, error) {
	res, err := c.call(&controlRequest{Op: "verify"})
	return res.Report, err
}

func (c *controlClient) Backup(path string) (BackupInfo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return BackupInfo{}, err
	}
	res, err := c.call(&controlRequest{Op: "backup", Path: path})
	return res.Backup, err
}
