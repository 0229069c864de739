// Package dial connects to the Redis of the config, for package limits and for
// package replay.
//
// [Redis] knows its three forms (one server, Sentinels, a cluster), its TLS and
// its passwords, and turns the library's own retries and its log off: a command
// that was sent twice would count twice.
//
// Out of scope: commands for Redis, keys and scripts. It imports config.
package dial
