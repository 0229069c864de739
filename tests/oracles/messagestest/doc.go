// Package messagestest judges messages and their events as Anthropic's packages do: every
// event must be one that anthropic-sdk-go knows, in an order that its grammar allows, with
// all members that its types require and none that they do not have.
//
// Check judges a whole stream, Order one whose members are an upstream's own, and
// CheckMessage one message. Only tests import it; nothing that serves requests may.
package messagestest
