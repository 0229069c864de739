// Package fair divides common resources among customers: places of workers with a queue
// ([Turns]), bytes and other countable space ([Room]), and seconds of work
// ([Budget]). One greedy customer must not take them from another (design.md, P10).
//
// A share belongs to an [Owner]. A paid account is an owner of its own, wherever
// its requests come from. All other accounts and callers without a key together
// are one owner, whose share is divided by address.
//
// The package imports nothing of farebox, so that billing, providers, proxy and routes can all
// use it. It does not know the shared resource, and reads no config.
package fair
