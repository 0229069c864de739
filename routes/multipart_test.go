package routes

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
	"testing"
)

const oneFile = "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\nContent-Type: " +
	"image/png\r\n\r\nPNG\r\n--b\r\n" +
	"Content-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n--b--\r\n"

// Files are slices of the body: an upload of 25 MB is in memory once.
func TestPartsAreSlicesOfTheBody(t *testing.T) {
	body := []byte("preamble\r\n" + oneFile)
	parts, err := ParseParts(body, "b")
	if err != nil || len(parts) != 2 || !parts[0].IsFile || parts[0].Name != "image" ||
		string(parts[0].Content) != "PNG" ||
		parts[1].IsFile || parts[1].Name != "prompt" || string(parts[1].Content) != "a cat" {
		t.Fatalf("%v, %v", parts, err)
	}
	body[bytes.Index(body, []byte("PNG"))] = 'X'
	if string(parts[0].Content) != "XNG" {
		t.Error("a file was copied")
	}
}

func TestBrokenFormsAreRefused(t *testing.T) {
	for body, want := range map[string]error{
		"": errPartEnd, "--b": errPartEnd, "--b--": nil, "--bx\r\n": errPartEnd, "--b\r\n\r\nx\r\n--b--": errPartName,
		strings.TrimSuffix(oneFile,
			"--b--\r\n"): errPartEnd,
		strings.Replace(oneFile, "--b--\r\n", "--b",
			1): errPartEnd,
		"--b\r\nno header\r\n\r\nx\r\n--b--":                                   errPartHead,
		"--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\nx\r\n--b--":   errPartName,
		"--b\r\nContent-Disposition: attachment; name=\"x\"\r\n\r\nx\r\n--b--": errPartHead,
		"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--":                    errPartName,
		"--b\r\nX: " + strings.Repeat(
			"y", maxPartHead) + "\r\n\r\nx\r\n--b--": errPartHead,
		"--b" + strings.Repeat("\r\nX: y", maxPartFields+1) +
			"\r\n\r\nx\r\n--b--": errPartHead,
		strings.Replace(oneFile, "Content-Type", "Content-Transfer-Encoding: base64\r\nX-T",
			1): errPartCoding,
		strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nx\r\n", MaxParts+1) +
			"--b--": errParts,
	} {
		if _, err := ParseParts([]byte(body), "b"); err != want {
			t.Errorf("%.60q: %v, want %v", body, err, want)
		}
	}
	for header, want := range map[string]error{
		"multipart/form-data": errBoundary, "multipart/form-data; boundary=": errBoundary, "application/json": nil,
		"multipart/form-data; boundary=" + strings.Repeat("x", 71): errBoundary,
		"multipart/form-data; boundary=\"a b\"":                    nil,
	} {
		if _, err := BoundaryOf([]byte(header)); err != want {
			t.Errorf("%s: %v, want %v", header, err, want)
		}
	}
}

// If this reader and the standard library's both accept a body, they read it the same
// way.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(oneFile))
	f.Add([]byte("x\r\n" + oneFile + "epilogue"))
	f.Add([]byte("--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b--"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name*=utf-8''%61\r\n\r\nx\r\n--b--"))
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, err := ParseParts(body, "b")
		if err != nil {
			return
		}
		r := multipart.NewReader(bytes.NewReader(body), "b")
		for _, p := range parts {
			theirs, err := r.NextRawPart()
			if err != nil {
				return // stricter than we are
			}
			content, err := io.ReadAll(theirs)
			if err != nil {
				return
			}
			if theirs.FormName() != p.Name || !bytes.Equal(content, p.Content) {
				t.Fatalf("part %q with %q is read as %q with %q", theirs.FormName(), content, p.Name, p.Content)
			}
		}
	})
}
