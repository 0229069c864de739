// Package fill fills a ledger with made-up usage and measures how long the
// billing reports take on it. It is the one part of bench that works inside a
// ledger instead of driving a server from outside: ten million entries that
// went through requests would take hours.
package fill
