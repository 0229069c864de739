// Package audio tests sound: speech in each dialect and format, customers' own voices,
// transcriptions and music, hostile upstreams, files and clients, and that each is
// charged correctly, once.
//
// Its upstream is the simulated one of bench/upstream, which makes real sound of an exact
// length and misbehaves on request; ffprobe checks the formats of files.
package audio
