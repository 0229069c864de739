package routes

import (
	"farebox/providers/chat/dialect"
)

// Enclaves know the state of the enclaves that models run in (addendum 15). Each of a model's
// targets is one.
type Enclaves interface {
	// Attested is the target of a model that has proven to have a key, of 130 hexadecimal digits:
	// only that one can open a body sealed to it. An enclave without a known state is asked. The
	// error is the refusal.
	Attested(c *Call, m *dialect.Model, key string) (*dialect.Target, *Error)
	// Ready says whether a target is verified now, or need not be.
	Ready(c *Call, t *dialect.Target) bool
	// Answered notes an answer, so that its account can ask for the enclave's signature. The
	// Call's context may be over by then.
	Answered(c *Call, a *EnclaveAnswer)
	// Betrayed notes a target that answered a sealed chat in the clear: it is used for
	// nothing until it is verified again. The same holds for the Call.
	Betrayed(c *Call, t *dialect.Target)
}

// EnclaveAnswer is the stored part of an answer.
type EnclaveAnswer struct {
	ID       string // the upstream's, which is the client's
	Target   *dialect.Target
	Key      string   // that the chat was sealed to; empty: it was not
	Request  [32]byte // SHA-256 of the bytes that were sent
	Response [32]byte // …and of those that came, and were relayed
}
