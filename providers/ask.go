package providers

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
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers/chat/dialect"
	"farebox/providers/credential"
	"farebox/providers/rpc"
	"farebox/proxy"
)

const (
	askLimit    = 10 * time.Second // of one question, after the connection
	askParallel = 8
	askRead     = 16 << 10 // of an answer, for its first words
)

// Asked is the result of a probe of one upstream.
type Asked struct {
	Name string
	Good string // the answer in short; empty: Err
	Err  error  // the fault and its remedy, without secrets
	// Status is that of the last answer; 0: it did not answer.
	Status int
	Took   time.Duration
}

// Ask asks every upstream of a config once, in its order, for something free: for its
// models, and a blockchain node for its chain. It distinguishes a wrong key, a wrong
// address and an unreachable host before customers meet them.
func Ask(cfg *config.Config) []Asked {
	return askAll(questionsOf(cfg, func(string, string) bool { return true }))
}

// question is the probe of one upstream.
type question struct {
	name string
	ask  func(status *int) (good string, err error)
}

// questionsOf are the questions to the wanted upstreams, by name, and by network for nodes.
func questionsOf(cfg *config.Config, wanted func(name, network string) bool) (list []question) {
	for i := range cfg.Upstreams {
		if u := &cfg.Upstreams[i]; wanted(u.Name, "") {
			list = append(list, question{u.Name, func(status *int) (string, error) { return askUpstream(u, status) }})
		}
	}
	for i := range cfg.RPC.Networks {
		n := &cfg.RPC.Networks[i]
		for j := range n.Upstreams {
			if u := &n.Upstreams[j]; wanted(u.Name, n.Name) {
				list = append(list, question{n.Name + "/" + u.Name, func(status *int) (string, error) { return askNode(n, u, status) }})
			}
		}
	}
	return list
}

func askAll(questions []question) []Asked {
	all := make([]Asked, len(questions))
	fair.Each(len(questions), askParallel, func(i int) {
		a, began := &all[i], time.Now()
		a.Name = questions[i].name
		a.Good, a.Err = questions[i].ask(&a.Status)
		a.Took = time.Since(began)
	})
	return all
}

// asker sends questions to one upstream over connections of their own.
type asker struct {
	http    http.Client
	base    string
	query   string
	headers [][2]string
	proof   credential.Credential // nil: the headers are enough
	limit   int64                 // bytes of an answer that are read
	status  *int                  // of the last answer
}

func newAsker(base, caFile string, connect time.Duration, headers [][2]string) (*asker, error) {
	dialer := net.Dialer{Timeout: connect}
	// No proxy of the environment is used, as when requests are forwarded.
	t := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: connect, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the ca_file: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	if socket, ok := strings.CutPrefix(base, "unix:"); ok {
		base = "http://localhost"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	a := &asker{base: strings.TrimRight(base, "/"), headers: headers, limit: askRead, status: new(int)}
	a.http = http.Client{Transport: t, Timeout: connect + askLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return a, nil
}

// get gives the status and the first bytes of an answer.
func (a *asker) get(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, a.base+path+a.query, strings.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("the address cannot be used")
	}
	if err := a.authorize(req, body); err != nil {
		return 0, nil, err
	}
	for _, h := range a.headers {
		req.Header.Set(h[0], h[1])
	}
	req.Header.Set("User-Agent", "farebox/1")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	*a.status = resp.StatusCode
	words, _ := io.ReadAll(io.LimitReader(resp.Body, a.limit))
	return resp.StatusCode, words, nil
}

// connect asks for nothing: the answer to HEAD / is not read.
func (a *asker) connect() error {
	req, err := http.NewRequest(http.MethodHead, a.base+"/", nil)
	if err != nil {
		return errors.New("the address cannot be used")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	return resp.Body.Close()
}

// authorize sets the headers of the upstream's credential.
func (a *asker) authorize(req *http.Request, body string) error {
	if a.proof == nil {
		return nil
	}
	q := proxy.Unproven{Method: req.Method, Host: req.URL.Host, Path: []byte(req.URL.EscapedPath()), Body: []byte(body)}
	if req.URL.RawQuery != "" {
		q.Query = []byte("?" + req.URL.RawQuery)
	}
	lines, err := a.proof.AppendFields(nil, &q)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(lines)), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
		a.headers = append(a.headers, [2]string{name, value}) // later hidden in printed answers
	}
	return nil
}

// askerOf asks an upstream of models in the way of requests. done closes its credential.
func askerOf(u *config.Upstream, answered *int) (a *asker, done func(), err error) {
	o := targetOptions(u)
	if a, err = newAsker(o.BaseURL, u.CAFile, u.Timeouts.Connect, o.Headers); err != nil {
		return nil, nil, err
	}
	a.status = answered
	if o.Query != "" {
		a.query = "?" + o.Query
	}
	if a.proof, err = credential.Open(credential.Of(u), zerolog.Nop()); err != nil {
		return nil, nil, err
	}
	if a.proof == nil {
		return a, func() {}, nil
	}
	return a, a.proof.Close, nil
}

func askUpstream(u *config.Upstream, answered *int) (string, error) {
	a, done, err := askerOf(u, answered)
	if err != nil {
		return "", err
	}
	defer done()
	speaks := dialects[u.Spoken()]
	if speaks.unlisted {
		status, body, err := a.get("POST", speaks.probe, "{}")
		if err == nil && (status == 400 || status == 404) {
			return fmt.Sprintf("takes the credential (%d to an empty request)", status), nil
		}
		if err != nil {
			return "", err
		}
		return statusResult(status, body, a.headers)
	}
	if u.Azure.Deployments() {
		// Paths without a deployment are beside the deployments.
		a.base = strings.TrimSuffix(a.base, "/deployments")
	}
	endpoint := speaks.probe
	status, body, err := a.get("GET", "/models", "")
	if err != nil {
		return "", err
	}
	if endpoint == "" && (status == 404 || status == 405) {
		// Upstreams that only make pictures need not list any models.
		return fmt.Sprintf("answers (%d to GET /models); its key was not checked", status), nil
	}
	if status == 404 || status == 405 {
		// Not every server lists its models. An empty request is refused, and costs
		// nothing, where the endpoint exists.
		listed := status
		if status, body, err = a.get("POST", endpoint, "{}"); err != nil {
			return "", err
		}
		if status == 404 || status == 405 {
			return "", a.misplaced(u, listed)
		}
		if status == 400 || status == 422 {
			return fmt.Sprintf("answers (%d to an empty request)", status), nil
		}
	}
	return statusResult(status, body, a.headers)
}

// misplaced is the error of a base_url with nothing below it; if the endpoints are below
// /v1 it says so.
func (a *asker) misplaced(u *config.Upstream, status int) error {
	if !strings.HasSuffix(a.base, "/v1") && !strings.HasPrefix(u.BaseURL, "unix:") {
		v1 := *a
		v1.base += "/v1"
		if status, _, err := v1.get("GET", "/models", ""); err == nil && status != 404 && status != 405 &&
			status < 500 {
			return fmt.Errorf("base_url answers 404, but below /v1 the API answers: expected base_url: %s/v1", a.base)
		}
	}
	return fmt.Errorf("base_url has no API (status %d for /models and for an empty request): expected the address "+
		"before /models in the provider's documentation, which mostly ends in /v1", status)
}

// askNode asks a node for its chain, and compares it with the configured one.
func askNode(n *config.RPCNetwork, u *config.RPCUpstream, answered *int) (string, error) {
	var headers [][2]string
	for name, value := range u.Headers {
		headers = append(headers, [2]string{name, value.Reveal()})
	}
	a, err := newAsker(u.URL.Reveal(), "", askLimit, headers)
	if err != nil {
		return "", err
	}
	a.status = answered
	status, body, err := a.get("POST", "", `{"jsonrpc":"2.0","id":1,"method":"`+rpc.ChainMethod(n.Family)+
		`","params":[]}`)
	switch {
	case err != nil:
		return "", err
	case status == 404 || status == 405:
		return "", fmt.Errorf("url has no JSON-RPC (status %d): expected the address for JSON-RPC, with the key of the "+
			"service in it", status)
	case status == 200 && !bytes.Contains(body, []byte(`"jsonrpc"`)):
		return "", errors.New("the server at url does not speak JSON-RPC: expected the address for JSON-RPC over HTTP")
	}
	good, err := statusResult(status, body, headers)
	if err != nil {
		return "", err
	}
	switch chain, reported := rpc.ChainOf(gjson.GetBytes(body, "result")); {
	case !reported:
		return good + "; it does not name its chain", nil
	case n.ChainID != "" && chain != n.ChainID:
		return "", fmt.Errorf("it is on chain %q, and chain_id of the network is %s: expected the address of a node "+
			"of that chain", chain, n.ChainID)
	default:
		return fmt.Sprintf("%s; on chain %q", good, chain), nil
	}
}

// statusResult turns the status of an answer into words for the operator.
func statusResult(status int, body []byte, headers [][2]string) (string, error) {
	words := dialect.FirstWords(body, nil, nil)
	for _, h := range headers {
		_, bare, _ := strings.Cut(h[1], " ")
		for _, secret := range []string{h[1], bare} {
			if secret != "" {
				words = strings.ReplaceAll(words, secret, "********")
			}
		}
	}
	if words != "" {
		words = "; it says: " + words
	}
	switch {
	case status >= 200 && status < 300:
		return fmt.Sprintf("good (%d)", status), nil
	case status == 401:
		return "", fmt.Errorf("the key is wrong or missing (401): set key: to a key of this provider%s", words)
	case status == 403:
		return "", fmt.Errorf("the key lacks permission, or the provider blocks this machine's address (403)%s", words)
	case status == 402:
		return "", fmt.Errorf("the provider demands payment first (402)%s", words)
	case status == 429:
		return "", fmt.Errorf("the provider's rate limit or your credit is used up (429)%s", words)
	case status >= 300 && status < 400:
		return "", fmt.Errorf("it redirects (%d), and farebox does not follow redirects: use the target address, "+
			"such as https:// instead of http://", status)
	case status >= 500:
		return "", fmt.Errorf("the provider is failing (%d): try again later%s", status, words)
	}
	return "", fmt.Errorf("it refuses the request (%d)%s", status, words)
}

// unreachable says why there was no answer, without addresses: those of
// blockchain nodes hold keys.
func unreachable(err error) error {
	var (
		number   syscall.Errno
		dns      *net.DNSError
		hostname x509.HostnameError
		cert     *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		wait     net.Error
	)
	switch {
	case errors.As(err, &dns):
		return errors.New("the host name cannot be resolved: check its spelling, and DNS on this machine")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("the connection is refused: is it running, and is the port right?")
	case errors.As(err, &hostname):
		return errors.New("its certificate is for another host name: check the host of the address")
	case errors.As(err, &cert):
		return errors.New("its certificate is not trusted: name the authority's certificates in ca_file")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("it does not speak TLS at this port: expected http:// or another port")
	case errors.As(err, &wait) && wait.Timeout():
		return errors.New("it does not answer in time: check the address, firewalls and timeouts.connect")
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(err.Error(), "malformed HTTP"):
		// The failure depends on how far the request had come.
		return errors.New("it closes the connection or does not speak HTTP: check the port, and https:// or http://")
	case errors.As(err, &number):
		return fmt.Errorf("it cannot be reached: %w", number)
	}
	return errors.New("the connection broke: check the port, and https:// or http://")
}
