// Package payment turns what wallets signed into credit, exactly once. A payment is
// a row of the store before anybody else hears of it; what the chain says decides,
// never what a facilitator answers:
//
//	(none) ─► submitted ─► credited ─► final
//	              │  ▲         └─► submitted, once more, when the chain lost it
//	              │  └─ refused (told so; watched until it cannot be spent any more)
//	              └─► dead
//
// Every state survives kill -9: [Machine] goes on with what was left, on whichever
// node. It asks facilitators and chains through a [ChainClient].
//
// What may not enter: HTTP, the form of payments, signatures.
package payment
