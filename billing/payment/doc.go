// Package payment turns the signed payments of wallets into credit, exactly once. Each
// payment is stored before it is sent. The chain decides about it, never the answer of a
// facilitator:
//
//	(none) ─► submitted ─► credited ─► final
//	              │  ▲         └─► submitted, once more, when the chain lost it
//	              │  └─ refused (polled until it cannot be spent any more)
//	              └─► dead
//
// Every state survives kill -9: a [Machine] on any node continues the payments of a dead
// process. It asks facilitators and chains through a [ChainClient].
//
// Out of scope: HTTP, the form of payments, signatures.
package payment
