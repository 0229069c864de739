package facilitator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"farebox/config"
	"farebox/config/background"
	"farebox/config/fair"
	"farebox/config/onchain"
)

const (
	// refreshEvery is how often support is asked for: fee payers change.
	refreshEvery = 5 * time.Minute
	// refreshSoon is when it is asked for again after a failure, at first.
	refreshSoon = 2 * time.Second
	// connectLimit is how long a connection may take.
	connectLimit = 5 * time.Second
	// turnLimit is how long a question waits while the most allowed are under way.
	turnLimit = 5 * time.Second
	// turnQueue is how many questions may wait.
	turnQueue = 256
	maxHead   = 32 << 10 // of the headers of an answer
)

// Client is one facilitator. Safe for concurrent use.
type Client struct {
	Name   string
	config config.X402Facilitator
	base   string
	proof  proof
	http   http.Client
	turns  *fair.Turns

	known  atomic.Pointer[support]
	failed atomic.Pointer[string] // why support is not known or old
	asking sync.Mutex             // one question for support at a time

	begin sync.Once
	work  background.Work
}

func newClient(c *config.X402Facilitator) (*Client, error) {
	p, err := proofOf(c)
	if err != nil {
		return nil, fmt.Errorf("cannot use facilitator %s: %w", c.Name, err)
	}
	t := &http.Transport{
		// No proxy of the environment is used, as when requests are forwarded.
		DialContext: (&net.Dialer{Timeout: connectLimit}).DialContext, TLSHandshakeTimeout: connectLimit,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableCompression: true,
		MaxIdleConnsPerHost: c.MaxInFlight, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHead,
	}
	if c.CAFile != "" {
		if t.TLSClientConfig.RootCAs, err = authorities(c.CAFile); err != nil {
			return nil, fmt.Errorf("cannot use facilitator %s: %w", c.Name, err)
		}
	}
	return &Client{Name: c.Name, config: *c, base: strings.TrimRight(c.URL.Reveal(), "/"), proof: p,
		turns: fair.NewTurns(c.MaxInFlight, turnQueue),
		http: http.Client{Transport: t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// authorities are those of the system and of a file.
func authorities(file string) (*x509.CertPool, error) {
	more, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(more) {
		return nil, errors.New("the ca_file has no certificate; expected PEM")
	}
	return pool, nil
}

// like says that a facilitator of another config is this one.
func (c *Client) like(o *config.X402Facilitator) bool { return reflect.DeepEqual(&c.config, o) }

// start asks for support in the background until stop.
func (c *Client) start() { c.begin.Do(func() { c.work.Go(c.refreshSupport) }) }

// stop ends start and waits for it.
func (c *Client) stop() {
	c.work.Close()
	c.http.CloseIdleConnections()
}

func (c *Client) refreshSupport() {
	soon := refreshSoon
	for wait := time.Duration(0); c.work.Sleep(wait); {
		wait = refreshEvery
		if c.refresh(c.work.Context()) != nil {
			wait, soon = soon, min(2*soon, refreshEvery)
		} else {
			soon = refreshSoon
		}
	}
}

// refresh asks for support. If it fails, the known support stays.
func (c *Client) refresh(ctx context.Context) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	ctx, cancel := context.WithTimeout(fair.With(ctx, fair.Operator), c.config.VerifyTimeout)
	defer cancel()
	status, body, _, err := c.request(ctx, http.MethodGet, "/supported", nil)
	var s *support
	if err == nil {
		s, err = readSupported(status, body)
	}
	if err != nil {
		text := err.Error()
		c.failed.Store(&text)
		return err
	}
	c.known.Store(s)
	c.failed.Store(nil)
	return nil
}

// support is the facilitator's support, asked for where that is not known yet.
func (c *Client) support(ctx context.Context) (*support, error) {
	if s := c.known.Load(); s != nil {
		return s, nil
	}
	if err := c.refresh(ctx); err != nil {
		return nil, fmt.Errorf("it does not list its networks: %w", err)
	}
	return c.known.Load(), nil
}

// Verify asks whether it would settle a payment.
func (c *Client) Verify(ctx context.Context, body []byte) (onchain.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.VerifyTimeout)
	defer cancel()
	status, answer, _, err := c.request(ctx, http.MethodPost, "/verify", body)
	if err != nil {
		return onchain.Reply{}, err
	}
	return readVerify(status, answer)
}

// Settle asks it to bring a payment onto the chain. sent says that it may have the request:
// then an error says nothing about the payment.
func (c *Client) Settle(ctx context.Context, body []byte) (r onchain.Reply, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.SettleTimeout)
	defer cancel()
	status, answer, sent, err := c.request(ctx, http.MethodPost, "/settle", body)
	if err != nil {
		return r, sent, err
	}
	r, err = readSettle(status, answer)
	return r, true, err
}

// request sends one request and reads the whole answer.
func (c *Client) request(ctx context.Context, method, path string, body []byte) (status int, answer []byte, sent bool,
	err error) {
	place, err := c.turn(ctx)
	if err != nil {
		return 0, nil, false, err
	}
	defer place.Done()
	var connected atomic.Bool
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}), method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, false, errors.New("its address cannot be used")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "farebox/1")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.proof != nil {
		value, err := c.proof.value(req)
		if err != nil {
			return 0, nil, false, err
		}
		req.Header.Set("Authorization", value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, connected.Load(), unasked(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(answer) > maxAnswer {
		return 0, nil, true, errors.New("its answer broke off or is too long")
	}
	return resp.StatusCode, answer, true, nil
}

// turn waits until a question may begin, in the turn of ctx's owner ([fair.Of]).
func (c *Client) turn(ctx context.Context) (fair.Place, error) {
	waits, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	place, err := c.turns.Take(waits, fair.Of(ctx))
	if err != nil {
		err = fmt.Errorf("%d questions are under way already; expected fewer, or a larger max_in_flight",
			c.config.MaxInFlight)
	}
	return place, err
}

// unasked says why there was no answer, without addresses and credentials.
func unasked(ctx context.Context, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("it did not answer in time")
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.As(err, &dns):
		return errors.New("its host name cannot be resolved")
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return errors.New("its certificate is not trusted; expected ca_file with the authority's")
	}
	return errors.New("it cannot be reached, or the connection broke off")
}
