// Package proxy moves bytes between clients and upstreams.
//
// # Contents
//
// Server settings and limits (server.go, listen.go, drain.go), clients' connections
// and their request bodies (client.go, wire.go, upload.go, buffer.go),
// upstream endpoints with their connections (endpoint.go, dial.go), one request's
// conversation with them (exchange.go, forward.go, send.go, head.go, framing.go,
// chunk.go), the relay of its answer (relay.go), patches of its body (patch.go),
// bodies that are made while they are written, both ways (source.go), waits that
// end with their client (await.go),
// and the one goroutine that watches all of it (watch.go). Below, package listen opens the
// sockets for clients, and package scan reads request bodies. Money, endpoints and dialects do
// not belong here: this package gets them as endpoints, a Lens and plain options.
//
// # The life of a request
//
//	bytes in ─► identify ─► read ─► choose ─► admit ─► patch ─► send ─► relay+meter ─► settle ─► bytes out
//	            routes      proxy   providers  billing  proxy    proxy   proxy          billing
//
// One goroutine, the connection's, carries a request from its first byte to its
// last. Nothing of fasthttp's RequestCtx is kept after that.
//
//  1. The server reads the head, and a body of up to 8 KiB. A head that could be
//     read in two ways is refused (wire.go).
//  2. routes finds the row of its table for the path (handler, right, limits) and
//     the key behind the Authorization header (billing.Lookup). Only then a large
//     body is read (Uploads.Read), into memory that grows with what arrives,
//     within the room for all bodies and the sender's share of it.
//  3. scan.Document.Skim goes over the body once. It finds every member that will
//     be priced, checked, routed by or changed, and refuses what two JSON parsers
//     could read differently.
//  4. providers resolves the model to a price, capabilities and targets.
//  5. billing.Admit checks balance and all limits together and opens the hold.
//     Nothing goes upstream without one.
//  6. Proxy.Open registers the exchange with the watcher. attempt.Picker names a
//     target, and its dialect writes the request as patches: byte ranges of the
//     client's body that change. An untouched body leaves as it came.
//  7. Exchange.once takes the most recently used idle connection that is still
//     quiet, or dials; writes head and body; reads the answer's head. An
//     attempt.Verdict feeds the breaker and says accept, retry or fail. Until a byte
//     has gone to the client, another target may be tried.
//  8. A small answer is read whole (Body), metered, settled and sent. A stream or a
//     large answer is attached to the response (Relay): after the handler returned,
//     the server calls relay.WriteTo, which reads the upstream's bytes, takes the
//     chunk framing off in place, shows it to the Lens (the meter, which extends
//     the hold as tokens are produced), and writes it out as one chunk and one
//     flush. When the upstream pauses everything it sent is with the client.
//  9. Lens.End settles before the client's last byte, exactly once whatever
//     happened; done gives the pooled values back.
//
// # Early ends
//
// Each way is one Cause. A client that leaves is seen by the watcher's poll within
// a tick, also before the first byte, and its upstream is closed (or read on, when
// the operator wants exact usage). Each phase has its limit: connect, first byte,
// pause between bytes, client that does not read, total. The watcher only expires
// sockets; the request's own goroutine wakes, sees the cause, and cleans up.
//
// An upstream's connection is used again only when its answer was read to the last
// byte and nothing followed it. An answer that breaks off never looks complete to
// the client: its connection closes without a terminator, unless the lens ended
// the body itself with an error event.
package proxy
