// Package tee shows the evidence of enclaves (interface.md, TEE; addendum 15): their reports with
// our verdict beside them, and their signatures over answers. It is routes.Enclaves for chats,
// too.
//
// Reports and signatures are relayed as their enclave wrote them, with members of ours added:
// clients check our claims with the relayed parts. Quotes, keys and hashes reach no log and no
// metric.
package tee
