// Package enclave is a simulated enclave for tests and demonstrations: a chat model in
// a TDX domain that proves where it runs, decrypts texts that are sealed to it, seals its
// deltas and signs for its answers, as dstack's proxy does. It makes certificates of
// its own at every start, under a root that says TEST ONLY; nothing that it proves is
// proof of anything.
//
// It can lie as a host could (Lie). Nothing of the gateway may be imported
// here: a shared mistake would be invisible.
package enclave
