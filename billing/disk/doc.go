// Package disk is what every room that keeps files in the data directory needs
// of a file system: [Lock] takes a directory for one process, [List] finds files
// by the end of their names, [Sync] makes names durable, [WriteSecret] writes a
// small file whole or not at all, and [Advise] tells an operator what an error of
// the disk asks of him.
//
// What may not enter: what the files are for. It imports nothing of ours.
package disk
