// Package window is the arithmetic of limits in time: how much of a limit was
// used, whether more fits, and when it will. It is pure: the owner of a value
// guards it and passes the time.
//
// [Window] is the used part of the limits of a minute, an hour, a day and a
// month, and of tokens a minute: a generic cell rate algorithm for limits that refill
// steadily, counters for those that begin again with the UTC calendar. [Hours] count
// over the last 24 hours, [Failures] block clients that fail too often, [Tally] only
// counts for a report. [Refusal] says which limit refuses and until when, [Quota]
// the rest, for an answer's headers.
//
// Out of scope: a clock, a lock, a store, Redis (package limits has the
// same windows over all nodes), money, and the window's owner. It imports config
// and calendar, and none of our other packages.
package window
