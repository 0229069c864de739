package queue

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/health"
	"farebox/proxy"
)

// Dialect puts orders to one kind of upstream. Implementations hold no state: the state of
// a job is in its Handle.
type Dialect interface {
	// Terms are t's rules for orders.
	Terms(t *Target) Terms
	// Reach is the reason that t cannot take o; nil: it can.
	Reach(o *Order, t *Target) *dialect.Unsupported
	// Submit fills s with the request that hands o over.
	Submit(s *Step, o *Order, t *Target, id Ident)
	// Submitted reads an answer of 2xx to it. False: it does not show whether the upstream
	// has the job.
	Submitted(r *Reply, t *Target) (*Taken, bool)
	// Refused reads an answer of 300 and above to it, most often by RefusedBy. Without
	// certain the upstream may have the job all the same.
	Refused(r *Reply, t *Target) (no *asyncjob.Refused, certain bool)
	// Poll fills s with the request for a job's status.
	Poll(s *Step, h *Handle, t *Target)
	// Polled reads an answer of any status to it. Without a Status it has filled s with a
	// further question, whose answer it gets with Reply.Part of that step. An error means
	// that the answer shows nothing.
	Polled(s *Step, r *Reply, h *Handle, t *Target) (*asyncjob.Status, error)
	// Cancel fills s with the request to stop; false if absent.
	Cancel(s *Step, h *Handle, t *Target) bool
	// Cancelled reads an answer of any status to it. With Asking it has filled s with a
	// further question, as Polled does. An error means that all of it is to be asked again.
	Cancelled(s *Step, r *Reply, h *Handle, t *Target) (Stop, error)
}

// Stop is the outcome of a cancellation.
type Stop uint8

// Free needs the upstream's own confirmation: the run had not begun, and it charges
// nothing. A client chooses the moment of a cancellation, so that nothing else counts.
const (
	Asking Stop = iota
	Free
	Charged // or it is not known
)

// FreeIf is Free where the upstream has confirmed it.
func FreeIf(confirmed bool) Stop {
	if confirmed {
		return Free
	}
	return Charged
}

// Terms are the rules of a target for orders.
type Terms struct {
	// Idempotent: the same order under the same key is taken once.
	Idempotent bool
	// Synchronous: the answer to the order is the result itself.
	Synchronous bool
}

// Ident identifies a job when it is submitted.
type Ident struct {
	Key  string // idempotency key
	Hook string // URL at which the upstream may report a change; may be empty
}

// Step is a request to a job's target.
type Step struct {
	Request proxy.Request
	// Part numbers the steps of one question; it comes back as Reply.Part.
	Part int
	// Most bounds an answer that is read whole; 0: 256 KiB.
	Most int
	// Media: an answer of 2xx whose type is that of sound or film is left open.
	Media bool
}

// Reply is the answer to a step: whole, or with Media a body that is still to be read.
type Reply struct {
	Part        int
	Status      int
	ContentType string
	Header      func(name string) []byte // valid during the call
	Body        []byte
	Media       *Media
	RetryAfter  time.Duration
}

// Taken is a job that an upstream has accepted.
type Taken struct {
	Handle Handle
	// Done is the result of a synchronous upstream; nil: Poll asks for it.
	Done *asyncjob.Status
}

// Handle identifies a job at its target. It is stored with the job as JSON.
type Handle struct {
	ID string `json:"id,omitempty"`
	// Status, Result and Cancel are paths below the target's base URL that the upstream
	// itself has named (Target.Own); empty: the dialect builds them of ID.
	Status string `json:"status,omitempty"`
	Result string `json:"result,omitempty"`
	Cancel string `json:"cancel,omitempty"`
	// Link is the future location of the result, if the upstream has given it already; it
	// is fetched without t's credentials, as all links are.
	Link  string `json:"link,omitempty"`
	Since int64  `json:"since,omitempty"` // Unix seconds when the upstream took the job
}

// Result is the location of a job's result. It is stored with the job as JSON.
type Result struct {
	URL string `json:"url,omitempty"`
	// Own: the target itself is asked for it, by Own of its dialect.
	Own  bool   `json:"own,omitempty"`
	Type string `json:"type,omitempty"` // the upstream's type; may be empty
}

// bytes is nil for a Result that is too long to be stored.
func (r *Result) bytes() []byte {
	return marshalBounded(r)
}

// marshalBounded is the JSON that is stored with a job; nil if it is too long. Ampersands stay as they
// are: addresses are full of them.
func marshalBounded(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil || b.Len() > maxResult {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Target is one upstream that serves a model of media. Immutable.
type Target struct {
	Upstream string // the operator's label
	Model    string // the model's name there
	Kind     *config.JobKind
	Dialect  Dialect
	Proxy    *proxy.Endpoint
	Base     string // the base URL, which addresses that the upstream names must begin with
	// Options are the dialect's own settings as the operator wrote them; Names and each
	// dialect list the keys.
	Options map[string]string
	// NoLinks says that the upstream is given data URLs alone.
	NoLinks bool
	// Breaker is its health; Weight and Priority say when it is asked.
	Breaker          *health.Breaker
	Weight, Priority int
}

// picker chooses the target of one order: those of the lowest priority number come
// first.
type picker = attempt.ByPriority[*Target]

// Turn is attempt.Ranked.
func (t *Target) Turn() (*health.Breaker, int, int) { return t.Breaker, t.Weight, t.Priority }

// unsupported is the reason that t cannot take o; nil: it can.
func (t *Target) unsupported(o *Order) (cannot *dialect.Unsupported) {
	if t.NoLinks {
		o.Links(func(member string, link *string) {
			if cannot == nil && !strings.HasPrefix(strings.ToLower((*link)[:min(5, len(*link))]), "data:") {
				cannot = &dialect.Unsupported{Path: member, Text: member + ": must be a data URL; this model follows no links."}
			}
		})
	}
	if cannot == nil {
		cannot = t.Dialect.Reach(o, t)
	}
	return cannot
}

// maxOwn is the longest path that is stored of an address.
const maxOwn = 512

// Own is the path below t's base URL of an address from the upstream, and whether it may be
// requested with t's credentials: it has the scheme and the host of the base URL, and a
// path below it.
func (t *Target) Own(address string) (path string, ok bool) {
	if len(address) > 2*maxOwn || strings.ContainsAny(address, "\\\x00\r\n\t ") {
		return "", false
	}
	u, err := url.Parse(address)
	base, berr := url.Parse(t.Base)
	if err != nil || berr != nil || u.User != nil || u.Opaque != "" || u.Host == "" ||
		u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) {
		return "", false
	}
	path, ok = strings.CutPrefix(u.EscapedPath(), strings.TrimSuffix(base.EscapedPath(), "/"))
	if !ok || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return "", false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if decoded, err := url.PathUnescape(part); err != nil || decoded == "." || decoded == ".." ||
			strings.ContainsAny(decoded, "/\\") {
			return "", false
		}
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	for _, c := range []byte(path) {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return "", false
		}
	}
	return path, len(path) <= maxOwn
}

// Plain says that an id of an upstream can be in a path.
func Plain(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
