// Package tdx checks the attestation of an enclave of Intel TDX: a quote of version 4 or 5,
// signed by a key of the processor, against Intel's publications about processors. [Parse]
// takes a quote apart; [Quote.Verify] makes a [Verdict] of it, step by step, with a
// [Collateral] that is itself checked. It makes no requests.
//
// google/go-tdx-guest is an oracle of the tests and not used here. Its release rejects real
// quotes, since it compares an FMSPC with its case. Its later revisions ignore the status of
// the platform with TDX 1.5 modules. It would also link protobuf, which nothing else needs.
//
// Everything fails closed: a part that is absent, not understood or too old is a step that
// did not pass. The meaning of the quote for a model, a nonce or a key is out of scope.
package tdx
