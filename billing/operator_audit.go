package billing

import (
	"encoding/json"
	"fmt"
	"time"

	"farebox/billing/store"
)

// AuditInfo tells of one change by an operator.
type AuditInfo struct {
	ID        string          `json:"id"`
	At        time.Time       `json:"at"`
	Who       string          `json:"who"`
	Role      string          `json:"role"`
	From      string          `json:"from"` // address, control socket or command line
	Operation string          `json:"operation"`
	Account   string          `json:"account,omitempty"` // name
	Subject   string          `json:"subject,omitempty"` // id of the changed object
	Reason    string          `json:"reason,omitempty"`
	Key       string          `json:"idempotency_key,omitempty"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
}

// ListAudit lists changes by operators, the latest first.
type ListAudit struct {
	Page
	Who       string    `json:"who,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Account   string    `json:"account,omitempty"` // id or name
	Subject   string    `json:"subject,omitempty"`
	From      time.Time `json:"from,omitzero"`
	To        time.Time `json:"to,omitzero"`
}

func (la ListAudit) carryOut(l *Ledger, _ *call) (list List[AuditInfo], err error) {
	f := store.AuditFilter{Who: la.Who, Operation: la.Operation, Subject: la.Subject, FromUs: toMicro(la.From),
		ToUs: toMicro(la.To)}
	if f.Account, err = l.accountNo(la.Account); err == nil {
		err = la.after(&f.Behind.AtUs, &f.Behind.No)
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the audit log: %w", err)
	}
	rows, next, err := l.store.Audit(f, la.most())
	if err != nil {
		return list, fmt.Errorf("cannot list the audit log: %w", err)
	}
	return page(rows, next, func(r *store.AuditRow) string { return cursorAt(r.AtUs, r.No) },
		func(rows []*store.AuditRow) ([]AuditInfo, error) { return describeAll(l, rows, auditInfo) })
}

func auditInfo(l *Ledger, r *store.AuditRow, names accountNames) (AuditInfo, error) {
	account, err := names.of(l, r.Account)
	return AuditInfo{ID: r.ID, At: fromMicro(r.AtUs), Who: r.Who, Role: r.Role, From: r.Origin, Operation: r.Operation,
		Account: account, Subject: r.Subject, Reason: r.Reason, Key: r.Idem, Before: json.RawMessage(r.Before),
		After: json.RawMessage(r.After)}, err
}
