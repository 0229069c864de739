package image

import (
	"bytes"

	"github.com/emmansun/base64"

	"farebox/providers/filebody"
	"farebox/providers/image/picture"
)

// IsURL says that the text of an image field is a link, not base64.
func IsURL[T string | []byte](text T) bool {
	return len(text) > 7 && (string(text[:7]) == "http://" || len(text) > 8 && string(text[:8]) == "https://")
}

// ReadText makes an Input of the raw content of a JSON string: base64, with or without a
// data URL's prefix. The text is cleaned in place, so memory holds it once: escapes, line
// ends and trailing bytes go, missing padding is an error. The error is a *picture.Refusal
// of addendum 8.
func ReadText(quoted []byte) (Input, error) {
	text, ok := cleanText(quoted)
	if !ok || len(text) == 0 {
		return Input{}, &picture.Refusal{Status: 400, Code: "CORRUPTED_IMAGE",
			Text: "The image cannot be decoded: it is not base64 text."}
	}
	h, err := accept(text, nil)
	if err != nil {
		return Input{}, err
	}
	return Input{Text: cutText(text, h.Size), Format: h.Format, Width: h.Width, Height: h.Height}, nil
}

// ReadRaw makes an Input of a file: a part of a multipart body, or a download. The error is
// a *picture.Refusal of addendum 8.
func ReadRaw(file []byte) (Input, error) {
	h, err := accept(nil, file)
	if err != nil {
		return Input{}, err
	}
	return Input{Raw: file[:h.Size:h.Size], Format: h.Format, Width: h.Width, Height: h.Height}, nil
}

func accept(text, raw []byte) (h picture.Header, err error) {
	if size := filebody.Size(text, raw); size >= picture.MaxSize {
		h.Size = size // too large in any format
	} else if h, err = picture.Read(text, raw); err != nil {
		return h, err
	}
	return h, h.Accept()
}

// cleanText makes padded standard base64 of a JSON string's text, in place.
// False: it has an escape that base64 cannot have.
func cleanText(p []byte) (_ []byte, ok bool) {
	if bytes.IndexByte(p, '\\') >= 0 {
		at := 0
		for i := 0; i < len(p); i++ {
			if p[i] != '\\' {
				p[at] = p[i]
				at++
				continue
			}
			if i++; i == len(p) {
				return nil, false
			}
			switch p[i] {
			case '/':
				p[at] = '/'
				at++
			case 'n', 'r', 't':
			default:
				return nil, false
			}
		}
		p = p[:at]
	}
	if len(p) > 5 && bytes.EqualFold(p[:5], []byte("data:")) {
		comma := bytes.IndexByte(p[:min(len(p), maxPrefix)], ',')
		if comma < 0 || !bytes.HasSuffix(bytes.ToLower(p[:comma]), []byte(";base64")) {
			return nil, false
		}
		p = p[comma+1:]
	}
	return p, true
}

// maxPrefix is the longest prefix of a data URL.
const maxPrefix = 256

// cutText cuts checked text off behind the file's first size bytes. Where that
// falls inside a group of four, its end is written anew.
func cutText(text []byte, size int64) []byte {
	if size == filebody.Size(text, nil) {
		return text
	}
	whole := size / 3
	rest := int(size % 3)
	if rest == 0 {
		return text[: whole*4 : whole*4]
	}
	var b [3]byte
	_, _ = base64.StdEncoding.Decode(b[:], text[whole*4:whole*4+4]) // was decoded before
	base64.StdEncoding.Encode(text[whole*4:], b[:rest])
	return text[: whole*4+4 : whole*4+4]
}
