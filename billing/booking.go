package billing

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"farebox/billing/store"
)

// Booking is the booking of a reference. It is the same at each request.
type Booking struct {
	Kind     string    `json:"kind"`    // credit, debit or refund
	Account  string    `json:"account"` // name
	Currency Currency  `json:"currency"`
	Amount   Nano      `json:"amount"`
	Ref      string    `json:"ref"`
	Memo     string    `json:"memo,omitempty"`
	At       time.Time `json:"at"`
	Balance  Nano      `json:"balance"` // in the currency, when it was booked
}

// bookingKinds are the kinds of entries as operators see them.
var bookingKinds = map[string]string{"TOP_UP": "credit", "ADJUST": "debit", "REFUND": "refund", "GRANT": "grant"}

func bookingOf(b *store.Booking, account string) *Booking {
	if b == nil {
		return nil
	}
	return &Booking{Kind: bookingKinds[b.Kind], Account: account, Currency: b.Currency, Amount: b.Amount, Ref: b.Ref,
		Memo: b.Memo, At: fromMicro(b.AtUs), Balance: b.Balance}
}

// ErrRef is a reference that has booked something else.
var ErrRef = errors.New("the reference belongs to another entry")

// RefError is ErrRef with the booking of the reference.
type RefError struct {
	Booking *Booking
	text    string
}

func (e *RefError) Error() string { return e.text }

// Is says that it is an ErrRef.
func (e *RefError) Is(target error) bool { return target == ErrRef }

// refTaken makes the error of a reference one for operators.
func (l *Ledger) refTaken(err error) error {
	var taken *store.RefError
	if !errors.As(err, &taken) {
		return err
	}
	name, reading := accountNames{}.of(l, taken.Booking.Account)
	if reading != nil {
		return reading
	}
	return &RefError{bookingOf(taken.Booking, name), err.Error()}
}

// ownRefs begin the references that farebox itself books with.
var ownRefs = []string{"diem:", "job:", "payment:"}

// checkRef refuses references that could collide with those of farebox.
func checkRef(ref string) error {
	for _, own := range ownRefs {
		if strings.HasPrefix(ref, own) {
			return fmt.Errorf("cannot use the reference %q: %q begins references of farebox itself", ref, own)
		}
	}
	return checkText("reference", ref)
}
