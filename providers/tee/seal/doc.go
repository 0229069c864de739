// Package seal is how contents are sealed to the key of an enclave (addendum 15.3):
// what a sealed text looks like, how a turn that came in the clear is sealed, and who
// signed for an answer. There is no way here to open anything but what a test sealed:
// the gateway has no private key.
//
// Version 1 binds a sealed text to nothing but a key: whoever sees the client's key can
// make one up, and drop, repeat or reorder those of others. What finds that out is the
// enclave's signature over the bytes.
package seal
