// Package image is the dialects of image upstreams: the request in our own terms
// ([Job]), the dialects that put it to an upstream and read its answer, and
// the byte plumbing between base64 text and raw bytes.
//
// [Engine.Do] makes the images of a Job: it picks a target,
// drives the target's [Run] step by step (one request at most upstreams; submit,
// poll and fetch at a queue), fails over while nothing went to the client, makes
// several calls side by side where an upstream makes one image a call, and
// checks and converts the images. The [Result] is complete and checked before
// the first byte goes to the client, and is in memory once: its images are
// slices of the upstreams' answers, which [filebody.Pieces] turn into base64 or raw bytes
// while they are written.
//
// Each dialect is a folder below this one. Package picture knows image files;
// providers/fetch gets URLs through a guard.
//
// Out of scope: money, limits, validation of the client's body, and the
// form of answers to clients, which are routes' business.
package image
