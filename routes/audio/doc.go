// Package audio sells sound: speech made of text, the voices that speak it, and text made
// of speech.
//
// Capability is the type that main registers. Each endpoint has a file: speech.go and voices.go,
// transcribe.go, filmed.go (of videos on the web); the dialects of upstreams are in
// providers/audio. All of it is answered at once; music is a job, of routes/jobs.
//
// Balances, limits, retries and the request log belong to routes and to the packages
// below it. Nothing of another capability may enter.
package audio
