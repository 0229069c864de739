package media

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"
)

// fill puts so many files that are two hours old.
func fill(t *testing.T, l *local, name string, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Put(t.Context(), fmt.Sprintf("%s-%06d", name, i), bytes.NewReader(wave(100)), "audio/wav",
			1000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASweepRemovesWhatNobodyHas(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	fill(t, l, "wanted", 10)
	fill(t, l, "unwanted", 5)
	fill(t, l, "unknown", 3)
	s := NewSweeper(l, time.Hour, func(id string) (Verdict, error) {
		switch id[:len(id)-7] {
		case "wanted":
			return Wanted, nil
		case "unwanted":
			return Unwanted, nil
		}
		return Unknown, nil
	}, nil)
	if sums, _, err := s.Sweep(t.Context(), diskTime(t)); err != nil || sums.Removed != 0 || sums.Files != 18 {
		t.Errorf("young files: %+v, %v", sums, err)
	}
	later := diskTime(t).Add(2 * Grace)
	sums, listed, err := s.Sweep(t.Context(), later)
	if err != nil || sums.Removed != 8 || sums.RemovedBytes != 800 || sums.Files != 10 || len(listed) != 10 {
		t.Errorf("%+v, %d are listed, %v", sums, len(listed), err)
	}
	if left := everyFile(t, l.dir); len(left) != 10 {
		t.Errorf("%d files are left", len(left))
	}
	// A ledger that was mixed up with another does not cost a whole store.
	fill(t, l, "foreign", doubtful)
	if sums, _, err := s.Sweep(t.Context(), later); err != nil || sums.Removed != 0 || sums.Refused != doubtful {
		t.Errorf("a store of others: %+v, %v", sums, err)
	}
	// A ledger that does not answer is not a reason either.
	s.judge = func(string) (Verdict, error) { return Unknown, context.DeadlineExceeded }
	if sums, _, err := s.Sweep(t.Context(), later); err == nil || sums.Removed != 0 {
		t.Errorf("without a ledger: %+v, %v", sums, err)
	}
}

func TestASweeperEnds(t *testing.T) {
	t.Parallel()
	s := NewSweeper(newLocal(t), time.Hour, nil, nil)
	s.Start()
	s.Close()
}
