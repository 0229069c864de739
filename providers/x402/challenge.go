package x402

import (
	"encoding/base64"
	"encoding/json"
)

// Names of headers. A payment is read from the first of Payments in the request.
const (
	HeaderRequired = "PAYMENT-REQUIRED"
	HeaderResponse = "PAYMENT-RESPONSE"
	// HeaderResponseV1 is HeaderResponse as clients of version 1 look for it.
	HeaderResponseV1 = "X-PAYMENT-RESPONSE"
)

// Payments are the headers that a payment may be in.
var Payments = [...]string{"PAYMENT-SIGNATURE", "X-402-Payment", "X-PAYMENT"}

// Resource is the resource that a payment is for.
type Resource struct {
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
}

// Challenge is the body of a 402 answer, and in base64 its header.
type Challenge struct {
	X402Version int             `json:"x402Version"` // Version
	Error       string          `json:"error,omitempty"`
	Resource    *Resource       `json:"resource,omitempty"`
	Accepts     []Requirement   `json:"accepts"`
	Extensions  json.RawMessage `json:"extensions,omitempty"`
}

// Settlement is the content of HeaderResponse.
type Settlement struct {
	Success     bool   `json:"success"`
	ErrorReason string `json:"errorReason,omitempty"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
}

// AppendHeader appends a value as headers of this protocol carry it: JSON in base64.
func AppendHeader(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	return base64.StdEncoding.AppendEncode(dst, text), nil
}
