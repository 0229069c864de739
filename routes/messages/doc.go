// Package messages sells answers of text models to Anthropic's clients: POST
// /messages and /messages/count_tokens, in the forms, errors and headers that its
// packages know.
//
// Capability is what main registers; rules.go is what a body must be, count.go the
// estimate of a prompt, errors.go how errors are written. The body becomes that of a
// chat completion in package providers/chat/messages, and routes.TextModels sells it.
//
// What may not enter: prices, targets and streams; chats have them.
package messages
