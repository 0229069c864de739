package calendar

import "time"

// DayOf is the UTC day of a time, counted from 1970-01-01.
func DayOf(ns int64) int32 { return int32(ns / int64(24*time.Hour)) }

// DayAt is [DayOf] for a time of any year: nanoseconds end in 2262.
func DayAt(t time.Time) int32 { return int32(t.Unix() / 86400) }

// MonthOf is the UTC month of a day, counted from 1970-01.
func MonthOf(day int32) int32 {
	y, m, _ := civil(day)
	return (y-1970)*12 + m - 1
}

// FirstDay is the first day of a month of [MonthOf].
func FirstDay(month int32) int32 {
	t := time.Date(1970+int(month/12), time.Month(month%12+1), 1, 0, 0, 0, 0, time.UTC)
	return int32(t.Unix() / 86400)
}

// civil is the calendar date of a day counted from 1970-01-01 (the days-to-civil
// algorithm of Howard Hinnant, which needs no table and no time.Time).
func civil(day int32) (y, m, d int32) {
	z := day + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

// Date is a day as the store writes it: 20261121.
func Date(day int32) int64 {
	y, m, d := civil(day)
	return int64(y)*10000 + int64(m)*100 + int64(d)
}

// DateText is a day as people write it: 2026-11-21.
func DateText(day int32) string {
	return time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
}

// DayOfDate is the day of a number such as 20261121.
func DayOfDate(n int64) int32 {
	return int32(time.Date(int(n/10000), time.Month(n/100%100), int(n%100), 0, 0, 0, 0, time.UTC).Unix() / 86400)
}
