package filebody

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// Form writes multipart/form-data into Pieces. NewForm makes one; End must follow.
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

var quoteName = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// File adds a file, of which text is base64 or raw its bytes. Its file name may be the
// client's.
func (f *Form) File(name, fileName, contentType string, text, raw []byte) {
	f.part(name, "; filename=\""+quoteName.Replace(fileName)+"\"\r\nContent-Type: "+contentType)
	f.AddRaw(text, raw)
	f.AddString("\r\n")
}

// End closes the form.
func (f *Form) End() *Pieces {
	f.AddString("--" + f.boundary + "--\r\n")
	return &f.Pieces
}
