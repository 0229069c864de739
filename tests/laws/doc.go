// Package laws tests how the code is laid out: which room imports which, how long files and functions are, which
// names have comments, which modules the binary has, and that dialects have the adapters that the config promises.
// Each exception to a law is in a list with its reason; a reason that is no longer needed is an error, too.
package laws
