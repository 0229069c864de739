// Package container says how long the sound of a file is without decoding it, and how long
// it can be at most: media that are sold by the second come from clients, and so do the
// headers that state the seconds.
//
// [Read] detects the format of a file by its content (WAV, FLAC, MP3, AAC, MP4 and
// QuickTime, Ogg, WebM and Matroska) and gives an [Info]: the length by its headers, that by
// its frames, and the most that any decoder can make of its bytes. Each format has a file of
// its own. Work is linear in the bytes, nothing recurses, and the Info keeps no reference to
// the file.
//
// Libraries for a single format, such as go-mp4, ebml-go and mewkiz/flac, report the headers'
// claims, or decode the sound. Charging needs the bound that no claim can move, so that the
// readers here are our own.
//
// Out of scope: money, requests, and anything that decodes sound.
package container
