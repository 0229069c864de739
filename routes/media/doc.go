// Package media is what links to finished jobs lead to: GET and HEAD with ranges, and
// DELETE, which ends them. A link needs no key, since its signature is one.
//
// [Capability] knows what each link has handed over (uses): a link for one download is
// used up by its last byte, however many ranges that takes. It also has the media store
// swept of what no job knows any more.
//
// What may not enter: keys, money, and how jobs are driven.
package media
