// Package image tests pictures: how they are made, edited and enlarged, rewritten
// prompts, in each dialect and format, what hostile pictures and forms do, and that
// each costs what it should, once.
//
// Its set-up is the studio: a gateway before the easel, an upstream that paints
// what it is asked for and misbehaves on request.
package image
