// Package routes is what clients see: the table of endpoints, authentication,
// validation, error shapes and the handlers.
//
// A Gateway holds what all requests share; a Call is one request on its way and
// is pooled. It has what every request has; what a capability needs beside that
// is its part (inference, pictures, rpcCall), which the end of the request, a
// panic and the log reach through one interface. Everything that has a price
// takes one path, Call.sell (sale.go), and what a client that left costs is
// decided in lost.go.
//
// One file a resource: chat.go, embeddings.go, models.go; pictures have one for
// each step of theirs (image_form.go to image_answer.go). A new endpoint is a
// file and a row in table.go. Errors leave through writeError and nowhere else.
//
// Money and limits are decided in billing, dialects in providers, bytes are
// moved in proxy: routes only connects them. No handler keeps anything of
// fasthttp's RequestCtx after it returned.
package routes
