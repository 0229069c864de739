package rig

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Hider writes bodies with repeated members: under their own names, in other letters, or
// with escapes.
type Hider struct {
	Names  []string // that some server reads
	Values []string // JSON that an attacker writes there
	// Known are members that the endpoint takes, as name=JSON: they are put in, or replace a
	// value, more often than the others.
	Known []string
	// Draw may give another member for an object with these names; an empty name: none.
	Draw func(r *rand.Rand, names []string) (name, value string)
}

// pair is a member of an object, whose key is as it is to be written.
type pair struct {
	key   string
	value any // *[]pair, []any, or JSON as text
}

// JSON is an honest body with one to three members more.
func (h *Hider) JSON(r *rand.Rand, honest string) string {
	d := json.NewDecoder(strings.NewReader(honest))
	d.UseNumber()
	var objects []*[]pair
	root := parse(d, &objects)
	for range 1 + r.IntN(3) {
		if name, value, ok := h.known(r); ok {
			top := root.(*[]pair)
			if at := slices.IndexFunc(*top, func(p pair) bool { return p.key == name }); at >= 0 {
				(*top)[at].value = value
			} else {
				*top = append(*top, pair{name, value})
			}
			continue
		}
		object := objects[r.IntN(len(objects))]
		if r.IntN(3) == 0 {
			object = objects[0]
		}
		names := make([]string, len(*object))
		for i, p := range *object {
			names[i] = p.key
		}
		name, value := h.draw(r, names)
		*object = slices.Insert(*object, r.IntN(len(*object)+1), pair{spelled(r, name), value})
	}
	var b bytes.Buffer
	write(&b, root)
	return b.String()
}

// known is one of Known, mostly.
func (h *Hider) known(r *rand.Rand) (name, value string, ok bool) {
	if len(h.Known) == 0 || r.IntN(4) == 0 {
		return "", "", false
	}
	return strings.Cut(h.Known[r.IntN(len(h.Known))], "=")
}

// draw is the name and the value of a further member beside others.
func (h *Hider) draw(r *rand.Rand, names []string) (name, value string) {
	if h.Draw != nil {
		if name, value = h.Draw(r, names); name != "" {
			return name, value
		}
	}
	name = h.Names[r.IntN(len(h.Names))]
	if len(names) > 0 && r.IntN(2) == 0 {
		if own := names[r.IntN(len(names))]; own != "" && !strings.Contains(own, `\`) {
			name = own
		}
	}
	return name, h.Values[r.IntN(len(h.Values))]
}

// spelled is a name as it is, in other letters, with escapes, or both.
func spelled(r *rand.Rand, name string) string {
	letters := []byte(name)
	at := r.IntN(len(letters))
	if r.IntN(4) == 0 {
		letters[at] = strings.ToUpper(name)[at]
	}
	if r.IntN(3) > 0 {
		return string(letters)
	}
	at = r.IntN(len(letters))
	return string(letters[:at]) + `\u00` + strconv.FormatInt(int64(letters[at]), 16) + string(letters[at+1:])
}

// parse is JSON as pairs. Objects are kept in objects, so that each can be changed.
func parse(d *json.Decoder, objects *[]*[]pair) any {
	token, err := d.Token()
	if err != nil {
		panic(err) // an honest body that is invalid
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, parse(d, objects))
		}
		_, _ = d.Token()
		return list
	case json.Delim('{'):
		object := &[]pair{}
		*objects = append(*objects, object)
		for d.More() {
			key, _ := d.Token()
			*object = append(*object, pair{key.(string), parse(d, objects)})
		}
		_, _ = d.Token()
		return object
	}
	raw, _ := json.Marshal(token)
	return string(raw)
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString(v)
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			b.WriteString(map[bool]string{false: ","}[i == 0])
			write(b, element)
		}
		b.WriteByte(']')
	case *[]pair:
		b.WriteByte('{')
		for i, p := range *v {
			b.WriteString(map[bool]string{false: ","}[i == 0] + `"` + p.key + `":`)
			write(b, p.value)
		}
		b.WriteByte('}')
	}
}

// Field is a field or, with a file name, a file of a form.
type Field struct{ Name, File, Value string }

// dispositions are ways in which clients name a part; NAME is the name, OTHER another one.
var dispositions = []string{
	`form-data; name="NAME"`, `form-data; name="NAME"`, `form-data; name="NAME"`, `form-data; name=NAME`,
	`form-data; name="NAME"; filename="a.png"`, `form-data; filename="a.png"; name="NAME"`,
	`form-data; name="NAME"; filename*=UTF-8''a.png`, `form-data; name="NAME"; filename=""`,
	`form-data; name*=UTF-8''NAME`, `form-data; name="OTHER"; name="NAME"`, `form-data; name="OTHER"; Name="NAME"`,
	`form-data; name="OTHER"; name*=UTF-8''NAME`, `form-data; name*0="NAME"; name="OTHER"`,
	`form-data; name="NAME[]"`, `form-data; name=" NAME"`, `form-data; name="NAME\""`, `form-data; name="\NAME"`,
	"form-data; name=\"NAME\x00\"", `form-data; name='NAME'`, `form-data; name="NAME`, `Form-Data;name="NAME"`,
	`attachment; name="NAME"`, `form-data; filename="\"; name=\"NAME\""; name="OTHER"`,
	"form-data;\r\n name=\"NAME\"", "form-data; name=\"OTHER\"\r\nContent-Disposition: form-data; name=\"NAME\"",
	"form-data; name=\"NAME\"\r\nContent-Type: application/json", "form-data; name=\"NAME\"\r\nContent-Type: text/plain; charset=utf-16",
	"form-data; name=\"NAME\"\r\nContent-Transfer-Encoding: base64", "form-data; name=\"NAME\"\n\n", "form-data; name=\"NAME\"\r",
}

// Form is an honest form with one to three parts more, and its type.
func (h *Hider) Form(r *rand.Rand, honest []Field) (body, contentType string) {
	const boundary = "between"
	fields := slices.Clone(honest)
	var more []string
	for range 1 + r.IntN(3) {
		if name, value, ok := h.known(r); ok {
			fields = slices.DeleteFunc(fields, func(f Field) bool { return f.Name == name })
			fields = append(fields, Field{Name: name, Value: strings.Trim(value, `"`)})
			continue
		}
		names := []string{honest[0].Name, honest[len(honest)-1].Name}
		name, value := h.draw(r, names)
		if r.IntN(4) == 0 {
			at := r.IntN(len(name))
			name = name[:at] + strings.ToUpper(name[at:at+1]) + name[at+1:]
		}
		disposition := strings.NewReplacer("NAME", name, "OTHER", names[r.IntN(2)]).Replace(dispositions[r.IntN(len(dispositions))])
		more = append(more, "Content-Disposition: "+disposition+"\r\n\r\n"+strings.Trim(value, `"`))
	}
	var parts []string
	for _, f := range fields {
		name := `form-data; name="` + f.Name + `"`
		if f.File != "" {
			name += `; filename="` + f.File + `"`
		}
		parts = append(parts, "Content-Disposition: "+name+"\r\n\r\n"+f.Value)
	}
	for _, part := range more {
		if r.IntN(8) == 0 { // in the text of another one, after a line that some take for a boundary
			at, line := r.IntN(len(parts)), []string{"\n--" + boundary + "\n", "\r\n--" + boundary + "x\r\n",
				"\r\n--" + boundary + " \r\n", "\r\n--" + boundary + "--\r\n--" + boundary + "\r\n", "\r--" + boundary + "\r"}[r.IntN(5)]
			parts[at] += line + part[:min(len(part), 200)] // no second file, which may be heard there
			continue
		}
		parts = slices.Insert(parts, r.IntN(len(parts)+1), part)
	}
	between := "--" + boundary + "\r\n"
	body = between + strings.Join(parts, "\r\n"+between) + "\r\n--" + boundary + "--\r\n"
	switch r.IntN(12) {
	case 0: // before the first boundary and after the last one no server reads
		body = "Content-Disposition: form-data; name=\"n\"\r\n\r\n9\r\n" + body
	case 1:
		body += between + "Content-Disposition: form-data; name=\"n\"\r\n\r\n9\r\n--" + boundary + "--\r\n"
	}
	return body, []string{"multipart/form-data; boundary=" + boundary, `multipart/form-data; boundary="` + boundary + `"`,
		"Multipart/Form-Data; BOUNDARY=" + boundary}[r.IntN(3)]
}
