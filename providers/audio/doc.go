// Package audio is the dialects of upstreams that turn text into speech and speech into
// text, and answer at once. A [Speaker] puts a [Speech] to one kind of upstream. Their
// answer goes on to the client as it arrives: a [SpeechStream] asks targets until one sends
// sound, and checks the ordered format by the first bytes.
//
// An upstream is not trusted: errors with status 200, pages of HTML and silence of no
// bytes are failures like any other, before the client has seen a byte.
//
// Each dialect is a folder below this one. Out of scope: money, limits, the
// validation of requests, and work that outlives its request, which is package queue's.
package audio
