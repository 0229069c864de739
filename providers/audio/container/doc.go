// Package container says how long the sound of a file is without decoding it, and
// how long it can be at most: what is sold by the second comes from clients, and so
// does the header that says how many there are.
//
// [Read] finds out by its content what a file is (WAV, FLAC, MP3, AAC, MP4 and
// QuickTime, Ogg, WebM and Matroska) and gives an [Info]: what its headers say, what
// its frames come to, and the most that any decoder can make of its bytes. Each
// format has a file of its own. Work is linear in the bytes, nothing recurses, and
// nothing is kept of what was read.
//
// Libraries for a single format, such as go-mp4, ebml-go and mewkiz/flac, report what headers
// claim, or decode the sound. Charging needs the bound that no claim can move, so that the
// readers here are our own.
//
// What may not enter: money, requests, and anything that decodes sound.
package container
