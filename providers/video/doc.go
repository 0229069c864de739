// Package video finds out how long the sound and videos are that clients give models
// of videos, and how large: what is sold by the second is measured here, and no client's
// word is taken for it.
//
// [Prober] reads what a link leads to through the guard of providers/fetch: of MP4 and
// QuickTime the boxes that describe the film, wherever they stand, of everything else
// the whole within a limit. What came as a data URL is read by [Read]. [Find] gives the
// file of a video that a page shows.
//
// Out of scope: prices, requests, and anything that decodes pictures.
package video
