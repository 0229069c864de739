// Package sound makes real, playable sound of an exact length, as model servers and their
// clients send it: WAV, FLAC, MP3, Opus in Ogg, AAC in ADTS, and bare samples. It is a
// quiet tone where samples are stored as they are, else silence: tests need to see how
// sound is carried, measured and paid, not how it sounds.
//
// A [Clip] gives its bytes piece by piece, at any length, and knows how many there are.
// [Bytes] is all of a short one.
//
// Out of scope: the gateway's own reading of containers, since a shared mistake
// would be invisible.
package sound
