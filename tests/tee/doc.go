// Package tee tests confidential models from outside: the proofs of enclaves, the
// gateway's verdicts, chats that only the enclave and the client can read, and the
// outcome of each lie of an enclave. The enclaves are those of bench/upstream/enclave.
package tee
