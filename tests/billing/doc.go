// Package billing tests the charges of requests: holds, hidden and unfinished answers,
// and the daily allowance. No balance and no limit is passed (overspend), and the reports
// for customers add up.
//
// That charges survive crashes and full disks is the subject of tests/ledger; the prices
// of pictures and blockchain calls are checked with these.
package billing
