package facilitator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"farebox/config/onchain"
	"farebox/proxy/scan"
)

const (
	// maxAnswer of a facilitator.
	maxAnswer = 64 << 10
	// maxDepth bounds the nesting of an answer.
	maxDepth = 16
	// maxReason and maxTransaction bound the stored parts of its answer.
	maxReason      = 120
	maxTransaction = 120
)

var errAnswer = errors.New("its answer cannot be read")

// Members of answers.
const (
	isValid = iota
	invalidReason
	invalidMessage
	success
	errorReason
	errorMessage
	transaction
)

var answerShape = scan.NewShape(scan.Members(nil, "isValid", "invalidReason", "invalidMessage", "success",
	"errorReason",
	"errorMessage", "transaction")...)

// strictJSON is an answer in which every member that is read is there once.
type strictJSON struct {
	text []byte
	doc  scan.Document
}

func open(body []byte) (*strictJSON, error) {
	s := &strictJSON{text: body}
	if len(body) > maxAnswer || s.doc.SkimWhole(body, answerShape, maxDepth) != nil {
		return nil, errAnswer
	}
	return s, nil
}

// truth is a member that must be true or false.
func (s *strictJSON) truth(id int) (bool, error) {
	f, ok := s.doc.Top(id)
	if !ok || f.Kind != scan.True && f.Kind != scan.False {
		return false, errAnswer
	}
	return f.Kind == scan.True, nil
}

// string is a member's text, empty if it is not a string.
func (s *strictJSON) string(id int) (text string) {
	text, _ = s.doc.Text(s.text, s.doc.TopIndex(id))
	return text
}

// words are the first of some texts that is not empty, cleaned for logs and answers.
func (s *strictJSON) words(ids ...int) string {
	for _, id := range ids {
		if text := clean(s.string(id), maxReason); text != "" {
			return text
		}
	}
	return "no_reason_given"
}

// clean keeps printable ASCII, and not too much of it.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text[:min(len(text), 4*most)])
	text = strings.TrimSpace(text)
	return text[:min(len(text), most)]
}

// unsure are reasons after which a payment may still be made.
var unsure = []string{"settlement_pending", "duplicate_settlement", "settle_exact_node_failure",
	"unexpected_verify_error"}

// leavesOpen says that the payment may still be made after a refusal.
func leavesOpen(status int, reason string) bool {
	return status >= 500 || status == 202 || slices.Contains(unsure, reason) || strings.Contains(reason, "pending") ||
		strings.Contains(reason, "timed_out") || strings.Contains(reason, "timeout")
}

// readVerify reads an answer to verify.
func readVerify(status int, body []byte) (r onchain.Reply, err error) {
	s, err := open(body)
	if err != nil {
		return r, said(status, err)
	}
	if r.OK, err = s.truth(isValid); err != nil {
		return r, said(status, err)
	}
	if !r.OK {
		r.Reason = s.words(invalidReason, invalidMessage)
		r.Unclear = leavesOpen(status, r.Reason)
	}
	return r, nil
}

// readSettle reads an answer to settle.
func readSettle(status int, body []byte) (r onchain.Reply, err error) {
	s, err := open(body)
	if err != nil {
		return r, said(status, err)
	}
	if r.OK, err = s.truth(success); err != nil {
		return r, said(status, err)
	}
	if text := s.string(transaction); len(text) <= maxTransaction && clean(text, maxTransaction) == text {
		r.Transaction = text
	}
	if !r.OK {
		r.Reason = s.words(errorReason, errorMessage)
		// A facilitator that names a transaction has sent it.
		r.Unclear = r.Transaction != "" || leavesOpen(status, r.Reason)
	}
	return r, nil
}

func said(status int, err error) error {
	if status < 200 || status > 299 {
		return fmt.Errorf("it answers with status %d, and %w", status, err)
	}
	return err
}
