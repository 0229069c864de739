package parse

import (
	"context"
	"errors"

	"farebox/providers/jail"
)

// Reason is the reason that a document gave no text.
type Reason uint8

// The reasons, each with a sentence for the client (Error.Text).
const (
	Broken      Reason = iota // damaged, or it brought its reader down
	Encrypted                 //
	Empty                     // nothing in it
	NoText                    // pages, but no text: a scan
	Unsupported               // not one of the formats
	TooLarge                  // unpacked, or as text
	TooSlow                   //
	Unavailable               // no fault of the document
	reasons
)

// A code is a reason's name where errors leave the jail.
var codes = [reasons]string{
	Broken: "broken", Encrypted: "encrypted", Empty: "empty", NoText: "no_text",
	Unsupported: "unsupported", TooLarge: "too_large", TooSlow: "too_slow", Unavailable: "unavailable",
}

var texts = [reasons]string{
	Broken:    "The document cannot be read: it is damaged, or it needs too much memory.",
	Encrypted: "The document is encrypted: remove its password and send it again.",
	Empty:     "The document is empty.",
	NoText:    "No text could be extracted: the document holds pictures only, as scans do.",
	Unsupported: "The document's format is not supported. Supported are PDF, DOCX, PPTX, XLSX, XLS, EPUB " +
		"and text such as Markdown, CSV, JSON and source code.",
	TooLarge:    "The document is too large once it is unpacked, or holds too much text.",
	TooSlow:     "The document takes too long to read.",
	Unavailable: "Documents cannot be read at the moment: try again later.",
}

// String is the reason's name in logs and metrics.
func (r Reason) String() string { return codes[r] }

// Error is a document that gave no text.
type Error struct{ Reason Reason }

// Error is Text.
func (e *Error) Error() string { return e.Text() }

// Text is the message to a client.
func (e *Error) Text() string { return texts[e.Reason] }

// Client says that the document is at fault and not the gateway.
func (e *Error) Client() bool { return e.Reason != Unavailable }

// refuse is the error of a reader in the jail.
func refuse(r Reason) error { return &jail.Refusal{Code: codes[r], Text: texts[r]} }

// explain makes an *Error of the error of a job; a context's error stays as it is.
func explain(err error) error {
	var said *jail.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said):
		for r, code := range codes {
			if code == said.Code {
				return &Error{Reason(r)}
			}
		}
		return &Error{Broken}
	case errors.Is(err, jail.ErrDied):
		return &Error{Broken}
	case errors.Is(err, jail.ErrTooSlow):
		return &Error{TooSlow}
	case errors.Is(err, jail.ErrTooLarge):
		return &Error{TooLarge}
	case err == context.Canceled || err == context.DeadlineExceeded: // the caller's, as it is
		return err
	}
	return &Error{Unavailable}
}
