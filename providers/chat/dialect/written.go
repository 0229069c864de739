package dialect

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// The functions of this file judge clients' texts where a dialect writes
// requests anew: only texts that they let pass are put into the upstream's JSON.

// IsToken says that a text has letters, digits, _ and - only.
func IsToken(text []byte, most int) bool {
	for _, c := range text {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= most
}

// IsBlank says that a JSON string holds white space alone, or nothing.
func IsBlank(raw []byte) bool {
	for i := 1; i < len(raw)-1; i++ {
		if raw[i] == ' ' {
			continue
		}
		if raw[i] != '\\' && raw[i] < utf8.RuneSelf {
			return false
		}
		return strings.TrimSpace(string(jsontext.AppendUnescaped(nil, raw[i:len(raw)-1]))) == ""
	}
	return true
}

var anyShape = scan.NewShape()

// IsObject says that a text is one JSON object, by a strict reading: such texts are
// put into JSON of ours.
func IsObject(text []byte) bool {
	var doc scan.Document
	return doc.SkimStrict(text, anyShape) == nil
}

// DataURL takes data:<media>;base64,<data> apart.
func DataURL(link []byte) (media, data []byte, ok bool) {
	rest, ok := bytes.CutPrefix(link, []byte("data:"))
	if !ok {
		return nil, nil, false
	}
	head, data, ok := bytes.Cut(rest, []byte(","))
	if !ok {
		return nil, nil, false
	}
	media, ok = bytes.CutSuffix(head, []byte(";base64"))
	if semicolon := bytes.IndexByte(media, ';'); semicolon >= 0 {
		media = media[:semicolon] // parameters such as charset
	}
	return media, data, ok
}

// IsBase64 says that all of a text is base64's alphabet, with its padding.
func IsBase64(data []byte) bool {
	body := bytes.TrimRight(data, "=")
	for _, c := range body {
		if !base64Byte[c] {
			return false
		}
	}
	return len(body) > 0 && len(data)%4 == 0 && len(data)-len(body) <= 2
}

var base64Byte = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		is[c] = true
	}
	return is
}()
