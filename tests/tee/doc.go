// Package tee tests confidential models from outside: what enclaves prove, whom the
// gateway believes, chats that only the enclave and the client can read, and what each
// lie of an enclave comes to. The enclaves are those of bench/upstream/enclave.
package tee
