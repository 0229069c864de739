package billing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/proxy/listen"
)

// The control socket lets the command line work on the ledger of a running
// server: one JSON object a line and direction, answers in order. It lies in
// the data directory with mode 0600; whoever opens it can also read the
// database, so it asks for no credential of its own.
const (
	controlName  = "control.sock"
	controlMost  = 16               // connections at a time
	controlLine  = 64 << 10         // bytes of a request
	controlReply = 256 << 20        // bytes of an answer, a list of a million keys
	controlIdle  = 30 * time.Second // between requests
	controlLong  = 6 * time.Hour    // of a recount or backup of a large store
)

// controlRequest names an operation and has its query.
type controlRequest struct {
	Op    string          `json:"op"`
	Query json.RawMessage `json:"query,omitempty"`
}

type controlResponse struct {
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"` // which known error it is
	Answer json.RawMessage `json:"answer,omitempty"`
}

// knownErrors keep their identity across the socket.
var knownErrors = map[string]error{"no_account": ErrNoAccount, "ref": ErrRef, "external": ErrExternal, "stale": ErrStale, "no_token": ErrNoToken, "other_query": ErrOtherQuery, "most_credit": ErrMostCredit, "balance": ErrBalance,
	"no_key": ErrNoKey, "name_taken": ErrNameTaken,
	"suspended": ErrSuspended, "closed": ErrClosed, "no_review": ErrNoReview, "reviewed": ErrReviewed,
	"no_job": ErrNoJob, "no_request": ErrNoRequest, "job_runs": ErrJobRuns, "job_given": ErrJobGiven,
	"not_allowed": ErrNotAllowed, "linked": ErrLinked, "not_linked": ErrNotLinked, "funds": ErrFunds, "wallet_key": ErrWalletKey,
	"no_payment": ErrNoPayment, "decided": ErrDecided, "payment_busy": ErrPaymentBusy, "not_shared": ErrNotShared, "verifying": ErrVerifying}

// controlServer serves operators on the control socket.
type controlServer struct {
	ledger   *Ledger
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
	short, release, err := listen.ShortPath(path)
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
	l.control = &controlServer{ledger: l, listener: listener, path: path, places: make(chan struct{}, controlMost),
		conns: map[net.Conn]bool{}}
	l.control.done.Go(l.control.accept)
	return nil
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
	by, in := onSocket(conn), bufio.NewReaderSize(conn, controlLine)
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
		answer := answerControl(s.ledger, by, line)
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

// onSocket is an operator at the control socket, with access to the store anyway.
func onSocket(conn net.Conn) Act {
	act := local()
	act.By.From = "control socket"
	if uid, ok := listen.PeerUID(conn); ok {
		act.By.Name = "uid " + strconv.Itoa(uid)
	}
	return act
}

// answerControl executes one request.
func answerControl(l *Ledger, by Act, line []byte) *controlResponse {
	var q controlRequest
	answer, err := any(nil), json.Unmarshal(line, &q)
	if o := operationNamed[q.Op]; err != nil {
		err = fmt.Errorf("cannot read the request: %w", err)
	} else if o == nil {
		err = fmt.Errorf("cannot do %q: the running farebox does not know it; it may be of another version", q.Op)
	} else {
		answer, err = o.serve(l, &call{Act: by, ctx: context.Background()}, q.Query)
	}
	res := &controlResponse{}
	if err == nil {
		res.Answer, err = json.Marshal(answer)
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

func (s *controlServer) closeSocket() {
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
	dir  string // of the ledger
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
	short, release, err := listen.ShortPath(filepath.Join(dir, controlName))
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := net.Dial("unix", short)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(conn, controlReply))
	return &controlClient{dir: dir, conn: conn, in: in, out: bufio.NewWriter(conn)}, nil
}

// call has the server carry an operation out.
func (c *controlClient) call(query, answer any) error {
	o := operationOf[reflect.TypeOf(query)]
	if o == nil {
		return fmt.Errorf("%T is not an operation", query)
	}
	q := controlRequest{Op: o.name}
	var err error
	if q.Query, err = json.Marshal(query); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := controlIdle
	if o.mode&lasting != 0 {
		limit = controlLong
	}
	if err := c.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if err := writeLine(c.out, &q); err != nil {
		return fmt.Errorf("cannot reach the running farebox: %w", err)
	}
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("cannot read the running farebox's answer: %w; the command may have succeeded: "+
			"check before you repeat it; a credit with a --ref is booked once", err)
	}
	var res controlResponse
	if err := json.Unmarshal(line, &res); err != nil {
		return fmt.Errorf("cannot read the running farebox's answer: %w", err)
	}
	if res.Error != "" {
		return &controlError{res.Error, knownErrors[res.Cause]}
	}
	if err := json.Unmarshal(res.Answer, answer); err != nil {
		return fmt.Errorf("cannot read the running farebox's answer: %w", err)
	}
	return nil
}

// controlError is the server's error with its text and identity.
type controlError struct {
	text  string
	cause error
}

func (e *controlError) Error() string { return e.text }
func (e *controlError) Unwrap() error { return e.cause }

// Close ends the connection to the server.
func (c *controlClient) Close() error { return c.conn.Close() }
