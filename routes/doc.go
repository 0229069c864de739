// Package routes is the core of the API: the server, the table of endpoints, authentication,
// validation, error shapes and the one path of everything that has a price. Products are in the
// packages below, one a capability, which main hands to New (capability.go); none of them is
// known here, and none knows another.
//
// A Gateway holds the state that all requests share; a Call is one request on its way and is
// pooled. It has the state that all requests need; a capability adds its own as its Part, which
// the end of the request, a panic and the log reach through one interface. Everything that is
// sold takes Call.Sell (sale.go).
//
// An endpoint is a Row (table.go) of a capability. A capability's state of the config is its
// View, which is swapped together with the rest. Errors leave through writeError and nowhere
// else.
//
// Money and limits are decided in billing, dialects in providers, bytes are moved in
// proxy: routes only connects them. No handler keeps anything of fasthttp's
// RequestCtx after it returned.
package routes
