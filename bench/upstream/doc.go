// Package upstream is a simulated model server for tests, demonstrations and
// measurements. It speaks OpenAI chat completions, embeddings and models, and
// OpenAI's responses, Anthropic messages, Google's generateContent, five kinds of
// image upstream (painting.go), and four that take jobs for music and videos
// (jobs.go), with true wire formats, and it can misbehave in every way a real
// upstream does: slow, cut, malformed, silent, wrong about usage.
//
// Its behaviour for a request is a Scenario: keys set for the whole server, by model name
// suffix (`sim-chat@slow`), by the X-Sim header, or, since gateways forward no foreign
// headers, inside the last user message: `[[sim tokens=5 hold_after=3]]`. Its real output
// is counted as Truth, so that a bill can be compared with it to the token.
//
// Below /rpc/ are blockchain nodes of the package chain, which has payments and their
// facilitator, too. Nodes with faults are in the package node, and servers that refuse the
// requests that vendors refuse in the package strict; both are for tests alone.
//
// Main types: Server, Options, Scenario, Stats. It writes HTTP itself on
// net.Conn because the faults live in the framing. Nothing of the gateway may
// be imported here: a shared mistake would be invisible.
package upstream
