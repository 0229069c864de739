package store

import (
	"math"
	"reflect"
	"testing"

	"farebox/billing/money"
	"farebox/config/fair"
)

// A statement takes the columns of its row after its own arguments, each once.
func TestStatementsTakeColumnsOutOfARow(t *testing.T) {
	t.Parallel()
	s := jobs.statement("UPDATE job SET {SET state, cancel}, ord = coalesce($2, ord) WHERE id = :id AND state < :state AND epoch = $1")
	if want := "UPDATE job SET state = $3, cancel = $4, ord = coalesce($2, ord) WHERE id = $5 AND state < $3 AND epoch = $1"; s.text != want {
		t.Errorf("%s, expected %s", s.text, want)
	}
	got := s.args(&JobRow{ID: "j", State: JobRunning, Cancel: true}, 7, nil)
	if want := []any{7, nil, int64(JobRunning), int64(1), "j"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a column that the table does not have was taken")
		}
	}()
	jobs.statement("UPDATE job SET {SET nothing}")
}

// Every kind of column comes back as it went in, at the ends of its range, too.
func TestRowsComeBackAsTheyWentIn(t *testing.T) {
	t.Parallel()
	s, err := OpenSQLite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := &PaymentRow{ID: "p", Wallet: "w", Units: math.MaxInt64, Amount: money.MaxCredit, Same: [32]byte{31: 255},
		Order: []byte("o"), Share: fair.Owner{Account: math.MaxUint64, Net: 1 << 63}, State: PaymentSubmitted}
	if _, err := s.AddPayment(p, 10, 10); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Payment("p"); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v, expected %+v", got, err, p)
	}
	for _, request := range [][16]byte{{}, {15: 1}} {
		j := &JobRow{ID: string(rune('a' + request[15])), Request: request, Hold: uint64(request[15]) + 1, State: JobSubmitting,
			Epoch: 1, Owed: request[15] > 0, Detail: []byte("{}")}
		if _, err := s.AddJob(j, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Job(j.ID); err != nil || !reflect.DeepEqual(got, j) {
			t.Errorf("%+v, %v, expected %+v", got, err, j)
		}
		if list, err := s.Jobs(0, JobPlace{}, 10); err != nil || len(list) == 0 || list[0].Detail != nil {
			t.Errorf("%+v, %v: a list has large columns", list, err)
		}
	}
}
