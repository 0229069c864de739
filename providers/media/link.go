package media

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"time"
)

// LinkKind is the purpose of a link. The signature covers it.
type LinkKind byte

const (
	// Plain links can be fetched any number of times until they expire.
	Plain LinkKind = 'p'
	// Download links are used up by one full download.
	Download LinkKind = 'd'
)

// The faults of a link.
var (
	ErrForged  = errors.New("the link was not made by this service")
	ErrExpired = errors.New("the link has expired")
)

// Links signs the addresses of results: their holder needs no key.
type Links struct{ key []byte }

// NewLinks makes links of a key of 32 bytes or more, which all nodes share.
func NewLinks(key []byte) *Links { return &Links{key} }

const (
	signatureBytes = 18 // of the MAC; they are 24 characters without a remainder
	// longest is the latest second that a link can name, in the year 9999: a number of
	// another length is not ours.
	longest = 253402300799
)

// Query is the query behind the id of a file: exp=…&sig=…
func (l *Links) Query(id string, kind LinkKind, expires time.Time) string {
	b := append(make([]byte, 0, 64), "exp="...)
	b = strconv.AppendInt(b, expires.Unix(), 10)
	b = append(b, "&sig="...)
	b = append(b, byte(kind))
	return string(base64.RawURLEncoding.AppendEncode(b, l.mac(id, kind, expires.Unix())))
}

// Check gives the purpose of a link by its id and query. Its signature is checked before
// anything else, so that nothing is learned of links that are not ours.
func (l *Links) Check(id string, exp, sig []byte, now time.Time) (LinkKind, time.Time, error) {
	var mac [signatureBytes]byte
	if len(sig) != 1+base64.RawURLEncoding.EncodedLen(signatureBytes) || checkID(id) != nil {
		return 0, time.Time{}, ErrForged
	}
	if n, err := base64.RawURLEncoding.Strict().Decode(mac[:], sig[1:]); err != nil || n != signatureBytes {
		return 0, time.Time{}, ErrForged
	}
	kind, at := LinkKind(sig[0]), int64(0)
	if len(exp) == 0 || len(exp) > 12 || exp[0] == '0' {
		return 0, time.Time{}, ErrForged
	}
	for _, c := range exp {
		if c < '0' || c > '9' {
			return 0, time.Time{}, ErrForged
		}
		at = 10*at + int64(c-'0')
	}
	if at > longest || !hmac.Equal(mac[:], l.mac(id, kind, at)) || kind != Plain && kind != Download {
		return 0, time.Time{}, ErrForged
	}
	expires := time.Unix(at, 0)
	if !now.Before(expires) {
		return kind, expires, ErrExpired
	}
	return kind, expires, nil
}

func (l *Links) mac(id string, kind LinkKind, expires int64) []byte {
	mac := hmac.New(sha256.New, l.key)
	text := append(make([]byte, 0, 96), byte(kind), 0)
	text = append(append(text, id...), 0)
	mac.Write(strconv.AppendInt(text, expires, 10))
	return mac.Sum(nil)[:signatureBytes]
}
