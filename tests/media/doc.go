// Package media tests the storage of tracks and videos: in a bucket of a real S3 server,
// in a directory that several nodes see, and on a disk that fills; and links to them,
// their readers, how often and how long they are valid.
package media
