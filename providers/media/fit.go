package media

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"farebox/config"
)

// headSize is the part of a body that is checked before any of it is stored.
const headSize = 512

// form is how files of some types begin.
type form struct {
	types  []string // the first one is its name in answers
	begins func(head []byte) bool
}

// forms are the types of files that are stored: those that models make, and pictures that
// go with them.
var forms = []form{
	{[]string{"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"}, isWave},
	{[]string{"audio/flac", "audio/x-flac"}, starts("fLaC")},
	{[]string{"audio/ogg", "audio/opus", "application/ogg", "video/ogg", "audio/vorbis"}, starts("OggS")},
	{[]string{"video/mp4", "audio/mp4", "audio/m4a", "audio/x-m4a", "audio/aac", "video/quicktime", "video/x-m4v"}, isISO},
	{[]string{"video/webm", "audio/webm", "video/x-matroska"}, starts("\x1a\x45\xdf\xa3")},
	{[]string{"audio/aac", "audio/aacp", "audio/x-aac"}, isADTS},
	{[]string{"audio/mpeg", "audio/mp3", "audio/x-mp3", "audio/x-mpeg"}, isMPEG},
	{[]string{"audio/aiff", "audio/x-aiff"}, func(h []byte) bool {
		return starts("FORM")(h) && len(h) >= 12 && string(h[8:11]) == "AIF"
	}},
	{[]string{"image/png"}, starts("\x89PNG\r\n\x1a\n")},
	{[]string{"image/jpeg", "image/jpg"}, starts("\xff\xd8\xff")},
	{[]string{"image/gif"}, starts("GIF8")},
	{[]string{"image/webp"}, func(h []byte) bool {
		return starts("RIFF")(h) && len(h) >= 12 && string(h[8:12]) == "WEBP"
	}},
}

// rawTypes are samples without a head: anything but text may be samples.
var rawTypes = []string{"audio/pcm", "audio/l16", "audio/l24", "audio/basic"}

func starts(with string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(with)) }
}

func isWave(h []byte) bool {
	return len(h) >= 12 && string(h[8:12]) == "WAVE" && (starts("RIFF")(h) || starts("RF64")(h) || starts("BW64")(h))
}

// isISO detects MP4 and QuickTime by the name of their first box.
func isISO(h []byte) bool {
	if len(h) < 12 {
		return false
	}
	switch string(h[4:8]) {
	case "ftyp", "styp", "moov", "mdat", "wide", "free", "skip", "pnot":
		return true
	}
	return false
}

// isADTS detects AAC in frames, whose layer is always 0.
func isADTS(h []byte) bool {
	return starts("ADIF")(h) || len(h) >= 7 && h[0] == 0xff && h[1]&0xf6 == 0xf0 && h[2]>>2&15 < 13
}

// isMPEG detects frames of MPEG audio, and the tag that may precede them.
func isMPEG(h []byte) bool {
	if starts("ID3")(h) {
		return len(h) >= 10 && h[3] < 0xff && h[4] < 0xff && (h[6]|h[7]|h[8]|h[9])&0x80 == 0
	}
	return len(h) >= 4 && h[0] == 0xff && h[1]&0xe0 == 0xe0 && // synchronised
		h[1]>>3&3 != 1 && h[1]>>1&3 != 0 && // version and layer are not reserved
		h[2]>>4 != 15 && h[2]>>2&3 != 3 // nor are the bit rate and the sample rate
}

// TypeOf is the type of a file by its first bytes; empty: not a type that is stored.
// MP4 is called video, though it may have sound alone.
func TypeOf(head []byte) string {
	for _, f := range forms {
		if f.begins(head) {
			return f.types[0]
		}
	}
	return ""
}

// endings are the endings of file names, by type.
var endings = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav", "audio/flac": "flac",
	"audio/x-flac": "flac", "audio/ogg": "ogg", "audio/opus": "opus", "audio/vorbis": "ogg", "application/ogg": "ogg",
	"video/ogg": "ogv", "video/mp4": "mp4", "audio/mp4": "m4a", "audio/m4a": "m4a", "audio/x-m4a": "m4a",
	"audio/aac": "aac", "audio/aacp": "aac", "audio/x-aac": "aac", "video/quicktime": "mov", "video/x-m4v": "m4v",
	"video/webm": "webm", "audio/webm": "weba", "video/x-matroska": "mkv", "audio/mpeg": "mp3", "audio/mp3": "mp3",
	"audio/x-mp3": "mp3", "audio/x-mpeg": "mp3", "audio/aiff": "aiff", "audio/x-aiff": "aiff", "image/png": "png",
	"image/jpeg": "jpg", "image/jpg": "jpg", "image/gif": "gif", "image/webp": "webp", "audio/pcm": "pcm",
	"audio/l16": "pcm", "audio/l24": "pcm", "audio/basic": "au",
}

// Ending is the ending of file names of a type; empty if it is not a type that is stored.
func Ending(mediaType string) string { return endings[mediaType] }

// MediaType is a Content-Type without its parameters, in lower case.
func MediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// suits says that a file that begins so may be of a type. A file without a claimed type may
// be of any type that is stored.
func suits(head []byte, contentType string) bool {
	switch t := MediaType(contentType); t {
	case "", "application/octet-stream", "binary/octet-stream":
		return TypeOf(head) != ""
	case "audio/flac", "audio/x-flac", "audio/aac":
		// A tag may precede these, too.
		if starts("ID3")(head) {
			return isMPEG(head)
		}
		return begins(head, t)
	default:
		return begins(head, t)
	}
}

func begins(head []byte, mediaType string) bool {
	for _, raw := range rawTypes {
		if mediaType == raw {
			return !isText(head)
		}
	}
	for _, f := range forms {
		for _, t := range f.types {
			if t == mediaType && f.begins(head) {
				return true
			}
		}
	}
	return false
}

// isText says that bytes are more likely a page or an error than samples.
func isText(head []byte) bool {
	if len(head) == headSize {
		for i := 0; i < 3 && len(head) > 0 && !utf8.RuneStart(head[len(head)-1]); i++ {
			head = head[:len(head)-1] // without a cut character at its end
		}
		if len(head) > 0 && head[len(head)-1] >= utf8.RuneSelf {
			head = head[:len(head)-1]
		}
	}
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return utf8.Valid(head)
}

// fit checks the beginning of a body, and gives all of it, as far as it is no larger than
// most; a larger one ends in an *Unfit.
func fit(body io.Reader, contentType string, most int64) (io.Reader, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	if n == 0 {
		return nil, &Unfit{"it is empty"}
	}
	if !suits(head, contentType) {
		t := MediaType(contentType)
		if len(t) > 64 {
			t = t[:64]
		}
		if isText(head) {
			return nil, &Unfit{"it is text and not of type " + t}
		}
		return nil, &Unfit{"it does not begin as files of type " + t + " do"}
	}
	if err != nil { // the body ended: head is all of it
		return &bounded{r: bytes.NewReader(head), left: most, most: most}, nil
	}
	return &bounded{r: io.MultiReader(bytes.NewReader(head), body), left: most, most: most}, nil
}

// bounded is a body that may not be larger than most.
type bounded struct {
	r          io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		p = p[:b.left+1] // one byte more shows that the body goes on
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &Unfit{"it is larger than " + config.Size(b.most).String() + " (media.max_bytes)"}
	}
	return n, err
}
