// Package signin reads the header SIGN-IN-WITH-X, by which a wallet identifies itself
// (addendum 14.1, 14.2), and makes the challenges that ask for it (14.4). [Rules] list the
// sites and chains that a message may be for; [Rules.Read] gives a [SignIn], or the
// [Refusal] whose code the client sees.
//
// A header has a message as it was signed, or the fields that it is made of (CAIP-122).
// Both become a text, which one parser reads by the grammar of EIP-4361, so that no
// field can hide another. A request's Host never counts: a message made for
// another site is replayed by sending that site's name.
//
// The siwe libraries read texts of Ethereum only: not Solana's texts, and not the fields of
// CAIP-122. One parser for all three is shorter than a library with two parsers beside it.
//
// The caller must check two things that are not known here: that the nonce is new
// ([SignIn.Token]), and of a contract wallet ([SignIn.Unproven]) that it signed at all.
//
// Out of scope: requests and answers, ledgers, chains that are asked.
package signin
