// Package calendar is how days and months are numbered: a day counts from
// 1970-01-01, a month from January 1970, both in UTC, whatever the machine's own
// zone is. Allowances of DIEM, limits of keys and daily usage are kept by them.
//
// [DayOf] and [MonthOf] say in which a moment lies, [FirstDay] where a month
// begins; [Date] is a day as the store writes it, such as 20261121, and
// [DayOfDate] reads that; [DateText] is a day as people write it.
//
// Out of scope: clocks, windows of limits, and the work at the end of
// a day. Everything here is a pure function, and the package imports nothing of
// ours.
package calendar
