// Package video finds out how long the sound and videos are that clients give models of
// videos, and how large: media that are sold by the second are measured here, whatever the
// client claims.
//
// [Prober] reads the file of a link through the guard of providers/fetch: of MP4 and
// QuickTime the boxes that describe the film, wherever they are, of everything else the
// whole within a limit. [Read] reads a data URL's file. [Find] gives the file of a video
// that a page shows.
//
// Out of scope: prices, requests, and anything that decodes pictures.
package video
