// Package film makes real, playable videos of an exact length, as model servers send them:
// MP4 with H.264, and with a silent track of AAC where that is wanted. A video is one
// colour a second: tests need to see how videos are carried, measured and paid, not how
// they look.
//
// [MP4] is the whole file of a [Film]. Pictures are written macroblock by macroblock
// without an encoder: the first of each second repeats one block of samples through
// prediction, and those behind it say that nothing has changed, so that ten minutes are
// below a megabyte.
//
// Out of scope: the gateway's own reading of containers, since a shared mistake
// would be invisible.
package film
