// Package image sells pictures: made from text, edited, enlarged and cut out, in the
// service's own form of requests and in OpenAI's.
//
// Capability is the type that main registers. A value of type pictures is one request: form.go
// and rules.go read it, generate.go, edit.go and simple.go are its endpoints, prompt.go has its
// prompt rewritten by a text model, input.go gets its input pictures, sale.go prices it and
// answer.go writes its answer. The image engine that asks the upstreams and carries a request to
// its end is in providers/image.
//
// Balances, limits, retries and the request log belong to routes and to the packages
// below it. Nothing of another capability may enter: text models are asked through
// routes.TextModels.
package image
