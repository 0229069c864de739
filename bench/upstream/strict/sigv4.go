package strict

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"farebox/bench/upstream"
)

// This file recomputes AWS Signature Version 4 from its documentation, with
// nothing of the library that gateways sign with.

const (
	awsAlgorithm = "AWS4-HMAC-SHA256"
	awsTime      = "20060102T150405Z"
	awsTolerance = 5 * time.Minute
)

// signedRequest is the signed part of a request.
type signedRequest struct {
	*upstream.CloudRequest
	now                 time.Time
	service             string
	secretOf, sessionOf func(access string) string
}

// fault is the kind of AWS's error and its text; empty: the signature is good.
func (r *signedRequest) fault() (kind, text string) {
	authorization := string(r.Header("authorization"))
	rest, ok := strings.CutPrefix(authorization, awsAlgorithm+" ")
	if !ok {
		return "MissingAuthenticationTokenException", "Missing Authentication Token"
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	scope := strings.Split(parts["Credential"], "/")
	if len(scope) != 5 || scope[4] != "aws4_request" || parts["Signature"] == "" {
		return "IncompleteSignatureException", "The authorization header is not complete."
	}
	names := strings.Split(parts["SignedHeaders"], ";")
	if !slices.IsSorted(names) || !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-date") {
		return "IncompleteSignatureException", "'Host' and 'X-Amz-Date' must be a 'SignedHeader'."
	}
	if token := r.Header("x-amz-security-token"); token != nil && !slices.Contains(names, "x-amz-security-token") {
		return "IncompleteSignatureException", "'X-Amz-Security-Token' must be a 'SignedHeader'."
	}
	date := string(r.Header("x-amz-date"))
	at, err := time.Parse(awsTime, date)
	if err != nil || date[:8] != scope[1] {
		return "IncompleteSignatureException", "Date in Credential scope does not match the request's."
	}
	if string(r.Header("x-amz-security-token")) != r.sessionOf(scope[0]) {
		return "UnrecognizedClientException", "The security token included in the request is invalid."
	}
	secret := r.secretOf(scope[0])
	if secret == "" {
		return "UnrecognizedClientException", "The security token included in the request is invalid."
	}
	if scope[3] != r.service {
		return "InvalidSignatureException", "Credential should be scoped to correct service: '" + r.service + "'."
	}
	if off := r.now.Sub(at); off > awsTolerance || off < -awsTolerance {
		return "InvalidSignatureException", "Signature expired: " + date + " is now earlier than " +
			r.now.Add(-awsTolerance).UTC().Format(awsTime)
	}
	canonical := r.canonical(names)
	toSign := awsAlgorithm + "\n" + date + "\n" + strings.Join(scope[1:], "/") + "\n" + hexSum([]byte(canonical))
	if !hmac.Equal([]byte(signatureOf(secret, scope[1:], toSign)), []byte(parts["Signature"])) {
		return "InvalidSignatureException", "The request signature we calculated does not match the signature you provided."
	}
	return "", ""
}

// signatureOf derives the key of a scope (date, region, service, aws4_request)
// and signs with it.
func signatureOf(secret string, scope []string, toSign string) string {
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, toSign))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonical is the canonical request.
func (r *signedRequest) canonical(names []string) string {
	var b strings.Builder
	// The path as it is in the request line is encoded once more, for all
	// services but S3.
	b.WriteString(r.Method + "\n" + encodePath(r.Path) + "\n" + canonicalQuery(r.Query) + "\n")
	for _, name := range names {
		value := string(r.Header(name))
		b.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	b.WriteString("\n" + strings.Join(names, ";") + "\n" + hexSum(r.Body))
	return b.String()
}

func canonicalQuery(query string) string {
	if query == "" {
		return ""
	}
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		value, _ = url.QueryUnescape(value)
		pairs = append(pairs, encodeURI(name, "")+"="+encodeURI(value, ""))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func encodePath(path string) string {
	if path == "" {
		return "/"
	}
	return encodeURI(path, "/")
}

// encodeURI leaves letters, digits, -._~ and the characters of kept as they are.
func encodeURI(s, kept string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("-._~"+kept, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
	}
	return b.String()
}
