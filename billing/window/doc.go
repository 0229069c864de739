// Package window is the arithmetic of limits in time: how much of a limit was
// used, whether more fits, and when it will. It is pure: whoever has a value of
// it guards it and says what time it is.
//
// [Window] is what was used of the limits of a minute, an hour, a day and a
// month, and of tokens a minute: a generic cell rate algorithm for what refills
// steadily, counters for what begins again with the UTC calendar. [Hours] count
// over the last 24 hours, [Failures] block who fails too often, [Tally] only
// counts for a report. [Refusal] says which limit refuses and until when, [Quota]
// what is left, for an answer's headers.
//
// What may not enter: a clock, a lock, a store, Redis (package limits has the
// same windows over all nodes), money, and whose window it is. It imports config
// and calendar, and nothing else of ours.
package window
