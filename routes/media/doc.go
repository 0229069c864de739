// Package media serves links to finished jobs: GET and HEAD with ranges, and DELETE, which ends
// them. A link needs no key, since its signature is one.
//
// [Capability] knows how many bytes of each link were delivered (uses): a link for one download
// is used up by its last byte, however many ranges that takes. It also has the media store swept
// of files without a job.
//
// Out of scope: keys, money, and how jobs are driven.
package media
