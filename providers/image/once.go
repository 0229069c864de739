package image

import "farebox/providers/chat/dialect"

// Once is a Run of one request and its answer.
type Once struct {
	// Ask fills the request.
	Ask func(s *Step)
	// Answer reads an answer of 2xx.
	Answer func(r *Reply) (*Outcome, *dialect.Failure)
}

// Next is Run.
func (o Once) Next(s *Step, last *Reply) (*Outcome, *dialect.Failure) {
	if last == nil {
		o.Ask(s)
		return nil, nil
	}
	if refusal := Refused(last); refusal != nil {
		return nil, refusal
	}
	return o.Answer(last)
}

// Cancel is Run: it can only close the connection.
func (Once) Cancel(*Step) bool { return false }

// Refused is the failure for an answer's status, nil for 2xx.
func Refused(r *Reply) *dialect.Failure {
	if r.Status >= 200 && r.Status < 300 {
		return nil
	}
	f := dialect.FailureOf(r.Status, r.RetryAfter, r.Body)
	return &f
}

// Broken is the failure of an answer that cannot be read.
func Broken() *dialect.Failure { return failure(textBroken) }
