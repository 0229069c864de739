// Package image tests pictures: generation, edits, upscales and rewritten prompts, in each
// dialect and format, hostile pictures and forms, and that each is charged correctly, once.
//
// Its set-up is the studio: a gateway before the easel, an upstream that paints the
// ordered pictures and misbehaves on request.
package image
