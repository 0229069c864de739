// Package routes is what clients see: the table of endpoints, authentication,
// validation, error shapes and the handlers.
//
// A Gateway holds the parts; a Call is one request on its way through them and
// is pooled. One file a resource: chat.go, embeddings.go, models.go; pictures
// have one for each step of theirs (image_form.go to image_answer.go). A new
// endpoint is a file and a row in table.go. Errors leave through writeError
// and nowhere else.
//
// Money and limits are decided in billing, dialects in providers, bytes are
// moved in proxy: routes only connects them. No handler keeps anything of
// fasthttp's RequestCtx after it returned.
package routes
