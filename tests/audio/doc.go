// Package audio tests sound: speech in each dialect and format, voices of customers'
// own, transcriptions and music, what hostile upstreams, files and clients do, and that
// each costs what it should, once.
//
// Its upstream is the simulated one of bench/upstream, which makes real sound of an
// exact length and misbehaves on request; ffprobe says what files are.
package audio
