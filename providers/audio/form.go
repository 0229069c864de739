package audio

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"strings"
)

// Form is a multipart body with one file, which stays where it is: the bytes of the
// client's body are written from there, to each target that is asked.
type Form struct {
	boundary     string
	before, tail []byte
	file         []byte
}

// NewForm begins a body.
func NewForm() *Form {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return &Form{boundary: "farebox" + hex.EncodeToString(b[:])}
}

var quoteName = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// Field adds a field. All of them precede the file.
func (f *Form) Field(name, value string) {
	f.before = append(append(append(f.before, "--"...), f.boundary...), "\r\nContent-Disposition: form-data; name=\""...)
	f.before = append(append(append(f.before, name...), "\"\r\n\r\n"...), value...)
	f.before = append(f.before, "\r\n"...)
}

// FieldUnless adds a field that has a value.
func (f *Form) FieldUnless(name, value string) {
	if value != "" {
		f.Field(name, value)
	}
}

// File adds the file and ends the body.
func (f *Form) File(field, name, contentType string, file []byte) {
	f.before = append(append(append(f.before, "--"...), f.boundary...), "\r\nContent-Disposition: form-data; name=\""...)
	f.before = append(append(append(f.before, field...), "\"; filename=\""...), quoteName.Replace(name)...)
	f.before = append(append(append(f.before, "\"\r\nContent-Type: "...), contentType...), "\r\n\r\n"...)
	f.file = file
	f.tail = append(append([]byte("\r\n--"), f.boundary...), "--\r\n"...)
}

// Type is the Content-Type of the body.
func (f *Form) Type() string { return "multipart/form-data; boundary=" + f.boundary }

// Len is proxy.Source.
func (f *Form) Len() int64 { return int64(len(f.before) + len(f.file) + len(f.tail)) }

// formStep is the most that is written at once, which an upstream must take within one
// stall limit.
const formStep = 64 << 10

// WriteTo is proxy.Source.
func (f *Form) WriteTo(w io.Writer) (n int64, err error) {
	for _, piece := range [...][]byte{f.before, f.file, f.tail} {
		for len(piece) > 0 {
			k, err := w.Write(piece[:min(len(piece), formStep)])
			n += int64(k)
			if err != nil {
				return n, err
			}
			piece = piece[k:]
		}
	}
	return n, nil
}
