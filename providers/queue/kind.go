package queue

import (
	"bufio"
	"bytes"
	"io"
	"strings"
)

// typed finds the type of a body: by its server, else by the upstream, else by its first
// bytes.
func typed(body io.ReadCloser, served, called string) (io.ReadCloser, string, error) {
	for _, text := range []string{served, called} {
		kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ";")
		if strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") {
			return body, kind, nil
		}
	}
	r := bufio.NewReaderSize(body, 4<<10)
	first, _ := r.Peek(12)
	return struct {
		io.Reader
		io.Closer
	}{r, body}, sniff(first), nil
}

// sniff is the type of a file by its first bytes; empty: unknown.
func sniff(first []byte) string {
	has := func(at int, text string) bool {
		return len(first) >= at+len(text) && bytes.HasPrefix(first[at:], []byte(text))
	}
	switch {
	case has(0, "ID3"), len(first) > 1 && first[0] == 0xff && first[1]&0xe6 == 0xe2:
		return "audio/mpeg"
	case has(0, "RIFF") && has(8, "WAVE"):
		return "audio/wav"
	case has(0, "fLaC"):
		return "audio/flac"
	case has(0, "OggS"):
		return "audio/ogg"
	case has(4, "ftypM4A"):
		return "audio/mp4"
	case has(4, "ftyp"):
		return "video/mp4"
	case has(0, "\x1a\x45\xdf\xa3"):
		return "video/webm"
	}
	return ""
}
