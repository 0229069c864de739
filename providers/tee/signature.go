package tee

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/providers/wallet"
	"farebox/proxy/scan"
)

// Signed is an enclave's signed statement about an answer.
type Signed struct {
	Address           [20]byte
	Request, Response string // SHA-256 in hexadecimal digits; empty if absent in the text
	Valid             bool   // the signature is that of Address over the text
}

// ErrSignature is an answer without the signature.
var ErrSignature = errors.New("the enclave gave no signature for it")

// maxText bounds a signed text.
const maxText = 64 << 10

// signatureShape are the members of an answer that decide anything, for us or for a client,
// and those that we write.
var signatureShape = func() *scan.Shape {
	of := scan.NewShape(scan.Members(nil, "value")...)
	return scan.NewShape(scan.Members(map[string]*scan.Shape{"signature": of}, slices.Concat(OursOfSignature,
		[]string{"text", "signature", "signing_address", "signing_algo", "receipt"})...)...)
}()

// ReadSignature reads an upstream's answer about a signature. Its own verdict on the
// validity is ignored.
func ReadSignature(raw []byte) (s Signed, err error) {
	r, err := strict(raw, signatureShape)
	if err != nil {
		return s, ErrAnswer
	}
	text, signature, address := r.Get("text"), r.Get("signature"), r.Get("signing_address")
	if signature.IsObject() {
		signature = signature.Get("value")
	}
	if text.Type != gjson.String || signature.Type != gjson.String || len(text.Str) > maxText {
		return s, ErrSignature
	}
	s.Request, s.Response = hashes(text.Str)
	shown, err := wallet.ParseAddress(address.Str)
	if err != nil || shown.Family() != wallet.EVM {
		return s, nil
	}
	s.Address = shown.EVM()
	if algo := r.Get("signing_algo").Str; algo != "" && algo != "ecdsa" {
		return s, nil
	}
	value, err := hex.DecodeString(strings.TrimPrefix(signature.Str, "0x"))
	if err != nil {
		return s, nil
	}
	by, err := wallet.Recover(value, wallet.PersonalHash(text.Str))
	s.Valid = err == nil && by == shown
	return s, nil
}

// hashes are the last two parts of request:response or model:request:response.
func hashes(text string) (request, response string) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 8 {
		return "", ""
	}
	request, response = parts[len(parts)-2], parts[len(parts)-1]
	if !isHash(request) || !isHash(response) {
		return "", ""
	}
	return strings.ToLower(request), strings.ToLower(response)
}

func isHash(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 64
}
