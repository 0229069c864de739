// Package messages sells answers of text models to Anthropic's clients: POST
// /messages and /messages/count_tokens, in the forms, errors and headers that its
// packages know.
//
// Capability is the type that main registers; rules.go has the rules of a body, count.go the
// estimate of a prompt, errors.go the errors. The body becomes that of a chat completion in
// package providers/chat/messages, and routes.TextModels sells it.
//
// Out of scope: prices, targets and streams; chats have them.
package messages
