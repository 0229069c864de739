package image

import (
	"strconv"

	"farebox/providers/filebody"
	"farebox/proxy/jsontext"
)

// Object writes a JSON object into Pieces: images join as base64 while the body
// is sent. A zero value is an empty object; End must follow.
type Object struct {
	filebody.Pieces
	begun bool
}

func (o *Object) name(name string) []byte {
	b := append(make([]byte, 0, len(name)+24), '{')
	if o.begun {
		b[0] = ','
	}
	o.begun = true
	return append(jsontext.AppendString(b, name), ':')
}

// Text adds a string.
func (o *Object) Text(name, text string) { o.Add(jsontext.AppendString(o.name(name), text)) }

// TextUnless adds a string that is not empty.
func (o *Object) TextUnless(name, text string) {
	if text != "" {
		o.Text(name, text)
	}
}

// Int adds a whole number.
func (o *Object) Int(name string, n int64) { o.Add(strconv.AppendInt(o.name(name), n, 10)) }

// Float adds a number as short as it can be written.
func (o *Object) Float(name string, f float64) {
	o.Add(strconv.AppendFloat(o.name(name), f, 'f', -1, 64))
}

// Bool adds true or false.
func (o *Object) Bool(name string, v bool) { o.Add(strconv.AppendBool(o.name(name), v)) }

// Raw adds JSON text.
func (o *Object) Raw(name, json string) { o.Add(append(o.name(name), json...)) }

// Image adds a file as a string of base64; prefix precedes it.
func (o *Object) Image(name, prefix string, in *Input) {
	o.Add(append(append(o.name(name), '"'), prefix...))
	o.AddText(in.Text, in.Raw)
	o.AddString(`"`)
}

// Images adds an array of files as strings of base64.
func (o *Object) Images(name string, ins []Input) {
	o.Add(append(o.name(name), '['))
	for i := range ins {
		if i > 0 {
			o.AddString(`,`)
		}
		o.AddString(`"`)
		o.AddText(ins[i].Text, ins[i].Raw)
		o.AddString(`"`)
	}
	o.AddString(`]`)
}

// End closes the object.
func (o *Object) End() *filebody.Pieces {
	if !o.begun {
		o.AddString(`{`)
	}
	o.AddString(`}`)
	return &o.Pieces
}

// Whole is a JSON number, or its text in a string, as a whole number.
func Whole(value []byte) (n Maybe[int64]) {
	if q := jsontext.Quoted(value); q != nil {
		value = q
	}
	if len(value) == 0 || len(value) > 20 {
		return n
	}
	v, err := strconv.ParseInt(string(value), 10, 64)
	return Maybe[int64]{v, err == nil}
}
