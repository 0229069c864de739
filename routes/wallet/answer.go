package wallet

import (
	"encoding/json"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/providers/x402"
	"farebox/routes"
)

// Answers of the top-up have the code as their error, and the text beside it (addendum
// 14.3), whatever shape the client's package expects of others.

type problemBody struct {
	Error   string   `json:"error"`
	Message string   `json:"message"`
	Details *details `json:"details,omitempty"`
}

type details struct {
	Reason      string `json:"reason,omitempty"`
	PaymentID   string `json:"paymentId,omitempty"`
	Transaction string `json:"transaction,omitempty"`
	Retry       string `json:"retry,omitempty"`
}

// refusedBody is a problem with the accepted payments.
type refusedBody struct {
	x402.Challenge
	Message string   `json:"message"`
	Details *details `json:"details,omitempty"`
}

func problem(status int, code, text string) *routes.Error {
	return detailed(status, code, text, nil)
}

func detailed(status int, code, text string, more *details) *routes.Error {
	return &routes.Error{Status: status, Code: code, Message: text, Uncounted: true,
		Body: encode(problemBody{Error: code, Message: text, Details: more})}
}

// later adds the time after which a retry may succeed.
func later(e *routes.Error, after time.Duration) *routes.Error {
	e.RetryAfter = after
	return e
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has nothing that could not be written
	}
	return text
}

// sentence is text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func usd(n money.Nano) json.Number { return json.Number(n.String()) }

// data is the body of all successful answers.
type data[T any] struct {
	Success bool `json:"success"`
	Data    T    `json:"data"`
}

func answer[T any](c *routes.Call, v T) *routes.Error {
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	return c.WriteJSON(encode(data[T]{true, v}))
}
