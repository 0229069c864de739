// Package money has amounts ([Nano]), prices ([Pico]), currencies ([Currency]) and
// the kinds of sold units ([Kind]) with their words, units and scales in one
// table. [Parts] is an amount by currency, in the order in which currencies are
// spent. [Limit] is a limit of spending as its owner wrote it.
//
// Everything here is a value and integers: nothing allocates, nothing is
// rounded but the cost of a line, up to 1 nano.
//
// Out of scope: balances, accounts, models and their names. This package imports
// config, for the prices that operators write, and nothing else of ours.
package money
