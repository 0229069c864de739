// Package evm is the payment of EVM chains: an authorization by EIP-3009, signed as
// EIP-712 has it, by which anybody may move exactly that much of a token from its
// owner to the address that it names, once.
//
// An [Authorization] is read strictly: numbers are decimal digits without zeros in front,
// the nonce is 32 bytes. Its Digest under a [Domain] is signed. The rest is calls to a
// chain and its logs.
//
// Out of scope: requests, prices, nodes that are asked.
package evm
