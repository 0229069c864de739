// Package audio sells sound: speech made of text, the voices that speak it, text made of
// speech, and music.
//
// Capability is what main registers. Each endpoint has a file: speech.go and voices.go,
// transcribe.go, filmed.go (of videos on the web), music.go; what upstreams speak is in providers/audio and
// providers/queue. Speech and transcriptions are answered at once, music is a job.
//
// Balances, limits, retries and the request log belong to routes and to the packages
// below it. Nothing of another capability may enter.
package audio
