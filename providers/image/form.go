package image

import (
	"crypto/rand"
	"strconv"

	"farebox/providers/image/picture"
)

// Form writes multipart/form-data into Pieces: files are turned from base64
// into bytes while the body is sent. NewForm makes one; End must follow.
type Form struct {
	Pieces
	boundary string
}

// NewForm begins a form. Its boundary is random: no client can write it into a
// field beforehand.
func NewForm() *Form { return &Form{boundary: "farebox-" + rand.Text()} }

// Type is the Content-Type of the body.
func (f *Form) Type() string { return "multipart/form-data; boundary=" + f.boundary }

func (f *Form) part(name, rest string) {
	f.AddString("--" + f.boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"" + rest + "\r\n\r\n")
}

// Field adds a text field. name is ours, text may be anything.
func (f *Form) Field(name, text string) {
	f.part(name, "")
	f.AddString(text)
	f.AddString("\r\n")
}

// FieldUnless adds a text that is not empty.
func (f *Form) FieldUnless(name, text string) {
	if text != "" {
		f.Field(name, text)
	}
}

// Int adds a whole number.
func (f *Form) Int(name string, n int64) { f.Field(name, strconv.FormatInt(n, 10)) }

// Float adds a number.
func (f *Form) Float(name string, v float64) { f.Field(name, strconv.FormatFloat(v, 'f', -1, 64)) }

// File adds an image as raw bytes. Its file name and type are of its format.
func (f *Form) File(name string, in *Input) {
	f.part(name, "; filename=\"image"+extension(in.Format)+"\"\r\nContent-Type: "+in.Format.ContentType())
	f.AddRaw(in.Text, in.Raw)
	f.AddString("\r\n")
}

func extension(f picture.Format) string {
	switch f {
	case picture.Unknown:
		return ""
	case picture.JPEG:
		return ".jpg"
	case picture.PNG, picture.WebP, picture.GIF:
	}
	return "." + f.String()
}

// End closes the form.
func (f *Form) End() *Pieces {
	f.AddString("--" + f.boundary + "--\r\n")
	return &f.Pieces
}
