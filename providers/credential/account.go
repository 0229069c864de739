package credential

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

const (
	scope = "https://www.googleapis.com/auth/cloud-platform"
	grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// assertionLife is how long the signed request for a token holds; Google
	// takes an hour at most.
	assertionLife = time.Hour
	// backdate allows for a clock of ours that is a little fast.
	backdate = 10 * time.Second
	// maxLife bounds the life of a token, whatever its endpoint says.
	maxLife     = 12 * time.Hour
	maxAnswer   = 64 << 10
	leastKeyBit = 2048
)

// tokenHosts are those that a key file alone may name: another address in the file would
// get our signed requests, and its answers would be trusted.
var tokenHosts = []string{"oauth2.googleapis.com", "accounts.google.com", "www.googleapis.com"}

// keyFile is the key of a service account.
type keyFile struct {
	email, keyID, url string
	key               *rsa.PrivateKey
}

func readKeyFile(path, tokenURL string) (*keyFile, error) {
	data, _, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	k, err := parseKeyFile(data, tokenURL)
	if err != nil {
		return nil, fmt.Errorf("%s is not a key of a service account: %w", path, err)
	}
	return k, nil
}

// parseKeyFile reads the JSON that Google's console gives. Its errors name
// members and no values.
func parseKeyFile(data []byte, tokenURL string) (*keyFile, error) {
	if !gjson.ValidBytes(data) {
		return nil, errors.New("it is not JSON; expected the file as it was downloaded")
	}
	root := gjson.ParseBytes(data)
	if kind := root.Get("type").Str; kind != "service_account" {
		return nil, errors.New(`its type is another one; expected "service_account"`)
	}
	k := &keyFile{email: root.Get("client_email").Str, keyID: root.Get("private_key_id").Str}
	if k.email == "" {
		return nil, errors.New("client_email is missing")
	}
	if k.url = tokenURL; k.url == "" {
		k.url = root.Get("token_uri").Str
		at, err := url.Parse(k.url)
		if err != nil || at.Scheme != "https" || at.User != nil || at.Port() != "" && at.Port() != "443" ||
			!slices.Contains(tokenHosts, at.Hostname()) {
			return nil, fmt.Errorf("token_uri is not an https address of %s; if it is right, write it as "+
				"google.token_url of the upstream", strings.Join(tokenHosts, ", "))
		}
	}
	block, _ := pem.Decode([]byte(root.Get("private_key").Str))
	if block == nil {
		return nil, errors.New("private_key is missing or not PEM")
	}
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		k.key, _ = parsed.(*rsa.PrivateKey)
	} else if k.key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		k.key = nil
	}
	if k.key == nil || k.key.N.BitLen() < leastKeyBit {
		return nil, fmt.Errorf("private_key is not an RSA key of at least %d bits", leastKeyBit)
	}
	return k, nil
}

// account is a source: it gets tokens for a service account from a token endpoint. The
// key file is read each time, so that a new key is taken without a reload.
type account struct {
	spec Spec
	http http.Client
	now  func() time.Time
}

func newAccount(s Spec) (*account, error) {
	// No proxy of the environment is used, as when requests are forwarded, and no redirect
	// is followed: the signed request is for one address.
	t := &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: renewLimit,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if s.CAFile != "" {
		more, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the ca_file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(more)
		t.TLSClientConfig.RootCAs = pool
	}
	return &account{spec: s, now: time.Now, http: http.Client{Transport: t, Timeout: renewLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// get is source.
func (a *account) get(ctx context.Context) (fetchedToken, error) {
	k, err := readKeyFile(a.spec.File, a.spec.TokenURL)
	if err != nil {
		return fetchedToken{}, err
	}
	now := a.now()
	issued := now.Add(-backdate)
	assertion, err := signJWT(k.key, k.keyID, claims{Issuer: k.email, Scope: scope, Audience: k.url,
		IssuedAt: issued.Unix(), Expires: issued.Add(assertionLife).Unix()})
	if err != nil {
		return fetchedToken{}, errors.New("cannot sign with the key of the service account")
	}
	form := url.Values{"grant_type": {grant}, "assertion": {assertion}}.Encode()
	req, err := http.NewRequestWithContext(ctx, "POST", k.url, strings.NewReader(form))
	if err != nil {
		return fetchedToken{}, errors.New("the address of the token endpoint cannot be used")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "farebox/1")
	resp, err := a.http.Do(req)
	if err != nil {
		return fetchedToken{}, unasked(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(body) > maxAnswer {
		return fetchedToken{}, errors.New("the token endpoint's answer broke off or is too large")
	}
	return readToken(resp.StatusCode, body, now)
}

// unasked is the error without an answer; it names no addresses and not the request.
func unasked(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) && wrapped.Timeout() || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("the token endpoint did not answer in time")
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return errors.New("the token endpoint cannot be reached: check DNS, firewalls and certificates of this machine")
}

var errorWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// readToken reads the answer of a token endpoint, which is not trusted.
func readToken(status int, body []byte, now time.Time) (fetchedToken, error) {
	if status != 200 {
		err := fmt.Errorf("the token endpoint refuses (%d)", status)
		if word := gjson.GetBytes(clipJSON(body), "error").Str; errorWord.MatchString(word) {
			err = fmt.Errorf("%w: %s", err, word)
			if word == "invalid_grant" {
				err = fmt.Errorf("%w: the key was deleted, or this machine's clock is off", err)
			}
		}
		return fetchedToken{}, err
	}
	answer := gjson.ParseBytes(clipJSON(body))
	value, kind, life := answer.Get("access_token"), answer.Get("token_type"), answer.Get("expires_in")
	switch {
	case value.Type != gjson.String || !plainToken(value.Str):
		return fetchedToken{}, errors.New("the token endpoint's answer has no access_token that fits into a header")
	case kind.Exists() && !strings.EqualFold(kind.Str, "Bearer"):
		return fetchedToken{}, errors.New("the token endpoint gives a token of another type; expected Bearer")
	case life.Type != gjson.Number || !(life.Num >= 1):
		return fetchedToken{}, errors.New("the token endpoint does not say how long its token holds; expected expires_in")
	}
	lasts := time.Duration(min(life.Num, maxLife.Seconds()) * float64(time.Second))
	return fetchedToken{value: value.Str, expires: now.Add(lasts)}, nil
}

// clipJSON is nil for a body that is not JSON.
func clipJSON(body []byte) []byte {
	if !gjson.ValidBytes(body) {
		return nil
	}
	return body
}

// next is source.
func (a *account) next(t fetchedToken, now time.Time) time.Duration { return ahead(t, now) }
