// Package picture knows image files without looking at their pixels: the format by the
// first bytes, the size by the header, and the place of metadata. Pixels are decoded in one
// place only, to convert an answer into a format that its upstream cannot make.
//
// Everything here is bounded: headers are read from a short prefix, also of base64 text,
// and decoded images have passed the limits of the specification (addendum 8) before.
//
// Out of scope: requests, upstreams, and fetching.
package picture
