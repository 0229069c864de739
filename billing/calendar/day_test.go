package calendar

import (
	"testing"
	"time"
)

func TestCalendarAgreesWithTheStandardLibrary(t *testing.T) {
	for day := int32(0); day < 80_000; day++ {
		want := time.Unix(int64(day)*86400, 0).UTC()
		y, m, d := civil(day)
		if int(y) != want.Year() || time.Month(m) != want.Month() || int(d) != want.Day() {
			t.Fatalf("day %d is %s, not %d-%d-%d", day, want.Format(time.DateOnly), y, m, d)
		}
		if d == 1 && FirstDay(MonthOf(day)) != day {
			t.Fatalf("the month of %s begins on day %d, not %d", want.Format(time.DateOnly), day,
				FirstDay(MonthOf(day)))
		}
	}
}
