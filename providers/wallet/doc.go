// Package wallet knows wallets without requests to anybody: their addresses, the way they
// sign, and the proof in a signature. [Address] is one of a chain of either family, EVM or
// Solana; it is an account's name and a map's key.
//
// Signatures have one accepted form each: a low s for secp256k1, keys of full order
// for Ed25519, so that the signer does not depend on the reader.
//
// Out of scope: requests, payments, chains that are asked, money.
package wallet
