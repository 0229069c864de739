// Package chain simulates the services that a signed payment needs: an EVM chain with a
// token of ERC-3009 ([EVM]), a Solana chain with a token of 6 decimals ([Solana]), and a
// facilitator of x402 that brings payments onto either ([Facilitator]). Any wallet has
// funds, unless a test takes them away; signatures are checked as a real chain would.
//
// Both chains answer JSON-RPC for a node ([EVM.Call], [Solana.Call]) that may be behind
// or lie ([Lie]).
//
// Nothing of the gateway may be imported here: a shared mistake would be invisible.
package chain
