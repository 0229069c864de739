// Package chat sells answers of text models: chat completions and embeddings.
//
// Capability is the type that main registers; an inference is the part of a Call. chat.go and
// embeddings.go read a request by the rules in rules.go, messages.go and gate.go; infer.go holds
// its largest cost and bills its usage; forward.go has the model's targets asked, relay.go meters
// the answer on its way, and lost.go decides the charge after a disconnect. lookup.go searches
// and reads pages before that, and found.go writes the message that they put into the prompt. A
// model that runs in an enclave is asked on the same way with a stricter plan: enclave.go decides
// it and keeps the signed digests, sealing.go has the rules of encrypted chats; the dialect
// checks their answers. Other capabilities ask text models through Ask (routes.TextModels).
//
// Dialects, usage and prompts belong to providers; balances, limits and the request log to routes
// and the packages below it. Nothing of another capability may enter.
package chat
