// Package media tests where tracks and videos wait: in a bucket of a real S3 server, in a
// directory that several nodes see, and on a disk that fills; and what links to them are
// good for, their readers, how often and how long.
package media
