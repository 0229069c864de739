// Package disk has the work on a file system for every room that keeps files in
// the data directory: [Lock] takes a directory for one process, [List] finds
// files by the end of their names, [Sync] makes names durable, [WriteSecret]
// writes a small file whole or not at all, and [Advise] adds an operator's remedy
// to an error of the disk.
//
// Out of scope: the purposes of the files. It imports none of our packages.
package disk
