// Package operations tests farebox as an operator runs it: first start, checks of a
// config, reload, drain, hand-over to a new process, sockets of systemd, metrics,
// the log, mistakes on the command line, and the binary itself.
//
// Accounts and keys from the command line are the subject of tests/account.
package operations
