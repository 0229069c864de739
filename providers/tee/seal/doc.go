// Package seal seals contents to the key of an enclave (addendum 15.3): the form of a
// sealed text, the sealing of a turn in clear text, and the signer of an answer. It cannot
// open anything but the texts that a test sealed: the gateway has no private key.
//
// Version 1 binds a sealed text to nothing but a key: an observer of the client's key can
// forge one, and drop, repeat or reorder real ones. Only the enclave's signature over the
// bytes detects that.
package seal
