package proxy

import (
	"bytes"
	"errors"
)

// Credential proves our identity to an upstream where no fixed header can: by a token that runs
// out, or by a signature of each request. It belongs to an
// Endpoint, so that everything that is asked there is proven the same way,
// whatever the body speaks. Safe for concurrent use.
type Credential interface {
	// AppendFields appends the header lines that prove one request, each with its
	// CRLF. An error means that there is nothing to show, so that the request is
	// not sent; it names no secret. q is valid during the call only.
	AppendFields(dst []byte, q *Unproven) ([]byte, error)
	// Refused is called when the upstream answered a request 401 or 403, with the
	// Date of the answer. True: there is something newer to show, and the request
	// is to be sent once more.
	Refused(q *Unproven, status int, date []byte) bool
}

// Unproven is a request as it is going to be sent, for a Credential to prove.
type Unproven struct {
	Method, Host string
	// Prefix, Path and Query are the parts of the request line: the query begins with its
	// question mark, Path may end in one too.
	Prefix  string
	Path    []byte
	Query   []byte
	Body    []byte
	Patches []Patch
	Source  Source // instead of Body
	// Mark is the Credential's own: it identifies the credential that was sent, for when it is
	// refused.
	Mark uint64
}

var (
	errProof = errors.New("the credential wrote header lines that cannot be sent")
)

// prove has the endpoint's credential write its lines, before anything else is done: a request
// without a credential must not take a connection.
func (x *Exchange) prove(t *Endpoint, r *Request) (Cause, error) {
	x.proof = x.proof[:0]
	if t.o.Credential == nil {
		return None, nil
	}
	x.asks = Unproven{
		Method: r.method(), Host: t.host, Prefix: t.prefix, Path: r.Path, Query: t.query,
		Body: r.Body, Patches: r.Patches, Source: r.Source,
	}
	if bytes.IndexByte(r.Path, '?') >= 0 && len(t.query) > 0 {
		x.asks.Query = t.further
	}
	var err error
	if x.proof, err = t.o.Credential.AppendFields(x.proof, &x.asks); err != nil {
		x.proof = x.proof[:0]
		return NoCredential, err
	}
	if !fieldLines(x.proof) {
		x.proof = x.proof[:0]
		return NoCredential, errProof
	}
	return None, nil
}

// disproven says that the answer refused the credential that was sent, and that there is a newer
// one.
func (x *Exchange) disproven(t *Endpoint, a *Result) bool {
	return t.o.Credential != nil && a.Cause == None && (a.Status == 401 || a.Status == 403) &&
		t.o.Credential.Refused(&x.asks, a.Status, x.head.get("date"))
}

// fieldLines says that p is whole header lines and nothing that could end the
// head: tokens come from files and from other servers.
func fieldLines(p []byte) bool {
	for len(p) > 0 {
		line, rest, ok := cutLine(p)
		colon := bytes.IndexByte(line, ':')
		if !ok || colon <= 0 || !token(line[:colon]) || !fieldValue(line[colon+1:]) {
			return false
		}
		p = rest
	}
	return true
}
