package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// maxHead bounds the head of one upstream answer.
	maxHead = 16 << 10
	// maxInterim bounds the 1xx answers before it.
	maxInterim = 100
	// maxLengthDigits keeps a Content-Length within an int64.
	maxLengthDigits = 18
	// maxRetryAfter is the longest wait we believe an upstream, and so the longest that clients
	// get in its name. A target rests at most as long (health.MaxCoolDown): clients that come
	// back then may find it well.
	maxRetryAfter = 2 * time.Minute
)

var errHead = errors.New("the answer's head is not valid HTTP/1.1")

// head is the parsed head of an upstream's answer. What two parsers could read
// differently (two lengths, a length beside a transfer coding, folded lines,
// bare line feeds) is refused instead of resolved: an answer that ends at
// another byte than we think would be given to another client.
type head struct {
	status      int
	length      int64 // Content-Length, -1 for none
	chunked     bool
	keepAlive   bool
	encoded     bool   // a Content-Encoding other than identity
	lines       []byte // field lines, each with its CRLF; own memory
	contentType span   // in lines
	retryAfter  time.Duration
}

type span struct{ from, to int }

// parse reads one head that ends with an empty line. now is for Retry-After dates.
func (h *head) parse(p []byte, now time.Time) error {
	*h = head{length: -1, lines: h.lines[:0]}
	if bytes.IndexByte(p, 0) >= 0 {
		return errHead
	}
	line, rest, ok := cutLine(p)
	if !ok || len(line) < len("HTTP/1.1 200") || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return errHead
	}
	minor := line[7] - '0'
	if minor > 1 || len(line) > 12 && line[12] != ' ' {
		return errHead
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return errHead
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 || h.status > 599 {
		return errHead
	}
	h.keepAlive = minor == 1
	h.lines = append(h.lines, rest[:len(rest)-2]...)
	return h.fields(minor == 1, now)
}

func (h *head) fields(http11 bool, now time.Time) error {
	for at := 0; at < len(h.lines); {
		line, rest, ok := cutLine(h.lines[at:])
		if !ok {
			return errHead
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !token(line[:colon]) {
			return errHead
		}
		from, to := colon+1, len(line)
		for from < to && (line[from] == ' ' || line[from] == '\t') {
			from++
		}
		for to > from && (line[to-1] == ' ' || line[to-1] == '\t') {
			to--
		}
		name, value := line[:colon], line[from:to]
		switch len(name) {
		case len("Connection"):
			if fold(name, "connection") {
				h.connection(value)
			}
		case len("Retry-After"):
			if fold(name, "retry-after") {
				h.retryAfter = parseRetryAfter(value, now)
			}
		case len("Content-Type"):
			if fold(name, "content-type") {
				h.contentType = span{at + from, at + to}
			}
		case len("Content-Length"):
			if fold(name, "content-length") {
				n, ok := parseLength(value)
				if !ok || h.length >= 0 {
					return errHead
				}
				h.length = n
			}
		case len("Content-Encoding"):
			if fold(name, "content-encoding") && len(value) > 0 && !fold(value, "identity") {
				h.encoded = true
			}
		case len("Transfer-Encoding"):
			if fold(name, "transfer-encoding") {
				if h.chunked || !http11 || !fold(value, "chunked") {
					return errHead
				}
				h.chunked = true
			}
		}
		at = len(h.lines) - len(rest)
	}
	if h.chunked && h.length >= 0 {
		return errHead
	}
	return nil
}

// connection takes the options of a Connection field. HTTP/1.0 servers that
// offer to keep the connection are not taken at their word.
func (h *head) connection(value []byte) {
	for option := range bytes.SplitSeq(value, []byte(",")) {
		if fold(bytes.TrimSpace(option), "close") {
			h.keepAlive = false
		}
	}
}

// bodyless says that the status allows no body whatever the fields say.
func (h *head) bodyless() bool { return h.status == 204 || h.status == 304 }

// get is the value of the first field of that name, nil if absent.
func (h *head) get(name string) []byte {
	for rest := h.lines; len(rest) > 0; {
		var line []byte
		line, rest, _ = cutLine(rest)
		if len(line) > len(name) && line[len(name)] == ':' && fold(line[:len(name)], name) {
			return bytes.Trim(line[len(name)+1:], " \t")
		}
	}
	return nil
}

// cutLine cuts at the first CRLF; a CR or LF elsewhere in the line fails.
func cutLine(p []byte) (line, rest []byte, ok bool) {
	n := bytes.IndexByte(p, '\n')
	if n < 1 || p[n-1] != '\r' || bytes.IndexByte(p[:n-1], '\r') >= 0 {
		return nil, nil, false
	}
	return p[:n-1], p[n+1:], true
}

func parseLength(value []byte) (n int64, ok bool) {
	if len(value) == 0 || len(value) > maxLengthDigits {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// parseRetryAfter takes seconds or a date; other values are not a wait.
func parseRetryAfter(value []byte, now time.Time) time.Duration {
	if n, err := strconv.Atoi(string(value)); err == nil {
		return min(max(0, time.Duration(min(n, int(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	at, err := fasthttp.ParseHTTPDate(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}

// fold compares with a lower-case name; only ASCII letters have case here.
func fold(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, c := range p {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		l := lower[i]
		if l >= 'A' && l <= 'Z' {
			l |= 0x20
		}
		if c != l {
			return false
		}
	}
	return true
}

func token(p []byte) bool {
	for _, c := range p {
		if !tokenByte[c] {
			return false
		}
	}
	return true
}

var tokenByte = func() (t [256]bool) {
	for c := '!'; c <= '~'; c++ {
		t[c] = !bytes.ContainsRune([]byte(`"(),/:;<=>?@[\]{}`), c)
	}
	return t
}()
