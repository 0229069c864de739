package picture

import "bytes"

// Format is the format of an image file, by its first bytes. The zero value is an unknown
// one.
type Format uint8

// The formats of the specification (interface.md, Images), and GIF, which is
// known so that it can be named when it is refused.
const (
	Unknown Format = iota
	PNG
	JPEG
	WebP
	GIF
)

var formats = [...]struct{ name, contentType string }{
	Unknown: {"", "application/octet-stream"},
	PNG:     {"png", "image/png"},
	JPEG:    {"jpeg", "image/jpeg"},
	WebP:    {"webp", "image/webp"},
	GIF:     {"gif", "image/gif"},
}

// String is the name that requests use: png, jpeg, webp, gif; empty for Unknown.
func (f Format) String() string { return formats[f].name }

// ContentType is the media type, application/octet-stream for Unknown.
func (f Format) ContentType() string { return formats[f].contentType }

// ParseFormat reads the name of an output format; jpg is taken for jpeg
// (addendum 8.5). Unknown for any other text.
func ParseFormat(name string) Format {
	switch name {
	case "png":
		return PNG
	case "jpeg", "jpg":
		return JPEG
	case "webp":
		return WebP
	}
	return Unknown
}

// SniffLen is how many first bytes identify a format.
const SniffLen = 12

// Sniff detects the format by the magic of the first bytes. Content types and file names
// are ignored: the sender chooses them.
func Sniff(p []byte) Format {
	switch {
	case bytes.HasPrefix(p, []byte("\x89PNG\r\n\x1a\n")):
		return PNG
	case bytes.HasPrefix(p, []byte("\xff\xd8\xff")):
		return JPEG
	case len(p) >= SniffLen && bytes.HasPrefix(p, []byte("RIFF")) && string(p[8:12]) == "WEBP":
		return WebP
	case bytes.HasPrefix(p, []byte("GIF87a")), bytes.HasPrefix(p, []byte("GIF89a")):
		return GIF
	}
	return Unknown
}
