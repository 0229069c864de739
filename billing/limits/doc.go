// Package limits makes the limits of package window hold over all nodes
// together, through Redis. It never has money.
//
// [Limits] is this node's side. [Limits.Take] asks for a [Permit] of the windows
// that a [Request] runs under, all of them or none, in one call of a script that
// Redis runs (limits.lua); large limits are taken in slices and spent in memory.
// [Limits.GiveBack] and [Limits.Correct] return the unused rest to Redis,
// a few times a second and not request by request. Without Redis the policy of
// the config decides: a part of the limit for each node, no limit, or nothing.
//
// Out of scope: the ledger, its accounts and its locks, money, HTTP. It
// imports calendar, config, dial and window, and none of our other packages.
package limits
