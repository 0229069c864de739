// Package filebody writes bodies with files in them, of requests to upstreams and of
// answers to clients. The files stay where they are in memory: [Pieces] are turned into
// base64, or back into raw bytes, while the body is written, and [Form] is a multipart
// body made of them.
package filebody
