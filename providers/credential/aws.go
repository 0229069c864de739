package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"farebox/config/background"
	"farebox/proxy"
)

const (
	// skewAllowed is how far the clocks may be apart before ours is to blame for a
	// refusal: AWS refuses signatures that are five minutes old or more, or that far ahead.
	skewAllowed = 4 * time.Minute
	// skewWarnings is the least time between two warnings of a wrong clock.
	skewWarnings = time.Minute
)

// awsKeys are one set of AWS credentials.
type awsKeys struct{ access, secret, session string }

// signing is the key for signatures, swapped as a whole.
type signing struct {
	keys awsKeys
	mark uint64
}

// signer signs every request with AWS Signature Version 4. The signature covers
// the body's hash, so that it is made of the bytes that are sent.
type signer struct {
	spec   Spec
	log    zerolog.Logger
	v4     *v4.Signer
	now    func() time.Time
	hashes sync.Pool

	with   atomic.Pointer[signing]
	mu     sync.Mutex // owns file, warned, and changes of with
	file   *secretFile
	warned time.Time // of a wrong clock
	work   background.Work
}

func newSigner(s Spec, log zerolog.Logger) *signer {
	g := &signer{spec: s, log: log, v4: v4.NewSigner(), now: time.Now}
	g.hashes.New = func() any { return sha256.New() }
	g.with.Store(&signing{keys: awsKeys{s.AccessKey.Reveal(), s.SecretKey.Reveal(), s.SessionToken.Reveal()}})
	if s.File == "" {
		return g
	}
	g.file = &secretFile{path: s.File}
	look := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.reread()
	}
	look()
	g.work.Every(filePoll, look)
	return g
}

// reread takes new keys from the file. The caller holds mu.
func (g *signer) reread() {
	if !g.file.stale() {
		return
	}
	data, err := g.file.read()
	var keys awsKeys
	if err == nil {
		keys, err = parseProfile(data, g.spec.Profile)
	}
	if err != nil {
		g.log.Warn().Err(err).Msg("cannot read the AWS credentials of the upstream again; the last ones are still used")
		return
	}
	if was := g.with.Load(); keys != was.keys {
		g.with.Store(&signing{keys: keys, mark: was.mark + 1})
	}
}

// AppendFields is proxy.Credential.
func (g *signer) AppendFields(dst []byte, q *proxy.Unproven) ([]byte, error) {
	with := g.with.Load()
	if with.keys.access == "" {
		return dst, errors.New("there are no AWS credentials yet")
	}
	q.Mark = with.mark
	sum, err := g.hash(q)
	if err != nil {
		return dst, err
	}
	path := q.Prefix + string(q.Path)
	at, err := url.ParseRequestURI(path + string(q.Query))
	if err != nil {
		return dst, errors.New("the request has a path that cannot be signed")
	}
	at.Scheme, at.Host = "https", q.Host
	req := &http.Request{Method: q.Method, URL: at, Host: q.Host, Header: make(http.Header, 4)}
	err = g.v4.SignHTTP(context.Background(), aws.Credentials{AccessKeyID: with.keys.access,
		SecretAccessKey: with.keys.secret, SessionToken: with.keys.session}, req, sum, g.spec.Service, g.spec.Region,
		g.now())
	if err != nil {
		return dst, errors.New("the request cannot be signed")
	}
	for name, values := range req.Header {
		for _, v := range values {
			dst = append(append(append(append(dst, name...), ": "...), v...), "\r\n"...)
		}
	}
	return dst, nil
}

// hash is the SHA-256, in hexadecimal digits, of the body as it will be sent.
func (g *signer) hash(q *proxy.Unproven) (string, error) {
	h := g.hashes.Get().(hash.Hash)
	defer g.hashes.Put(h)
	h.Reset()
	if q.Source != nil {
		if _, err := q.Source.WriteTo(h); err != nil {
			return "", errors.New("the body cannot be read to sign it")
		}
	} else {
		writePatched(h, q.Body, q.Patches)
	}
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])), nil
}

func writePatched(w io.Writer, body []byte, patches []proxy.Patch) {
	at := 0
	for i := range patches {
		p := &patches[i]
		_, _ = w.Write(body[at:p.From])
		_, _ = w.Write(p.With)
		at = p.To
	}
	_, _ = w.Write(body[at:])
}

// Refused is proxy.Credential. AWS answers 403 for a wrong clock, for expired keys and for
// missing rights; its clock is in the answer.
func (g *signer) Refused(q *proxy.Unproven, _ int, date []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.with.Load().mark != q.Mark {
		return true // another request met this refusal before
	}
	g.checkClock(date)
	if g.file != nil {
		g.reread()
	}
	return g.with.Load().mark != q.Mark
}

// checkClock warns if AWS refused a request because of this machine's clock. The
// caller holds mu.
func (g *signer) checkClock(date []byte) {
	at, err := fasthttp.ParseHTTPDate(date)
	now := g.now()
	ahead, word := now.Sub(at).Round(time.Second), "ahead of"
	if err != nil || ahead.Abs() <= skewAllowed || now.Sub(g.warned) < skewWarnings {
		return
	}
	if ahead < 0 {
		word = "behind"
	}
	g.warned = now
	g.log.Warn().Msgf("AWS refuses signatures of this machine, whose clock is %v %s AWS's: set the clock", ahead.Abs(), word)
}

// Close is Credential.
func (g *signer) Close() { g.work.Close() }
