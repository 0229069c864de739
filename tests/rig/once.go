package rig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"farebox/bench/upstream"
)

// Once reads a body that reached an upstream: JSON, or a form whose files are File. Where an
// object or a form has a name twice, in whatever letters, servers differ in their reading:
// that is an error. A form may have several fields with [], and several images.
func Once(sent *upstream.Received) (map[string]any, error) {
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(sent.Head)))
	if err != nil {
		return nil, fmt.Errorf("cannot read the head %q: %w", sent.Head, err)
	}
	media, params, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if media == "multipart/form-data" {
		return formOnce(sent.Body, params["boundary"])
	}
	v, err := Decode(sent.Body, once)
	object, ok := v.(map[string]any)
	if err == nil && !ok {
		err = errors.New("it is not an object")
	}
	return object, err
}

// File is a file of a form.
type File string

func formOnce(body []byte, boundary string) (map[string]any, error) {
	fields := map[string]any{}
	for r := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return fields, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		name := part.FormName()
		value := any(string(content))
		if part.FileName() != "" {
			value = File(content)
		}
		if list, again := fields[name].([]any); again {
			fields[name] = append(list, value)
			continue
		}
		if strings.HasSuffix(name, "[]") || name == "images" {
			value = []any{value}
		}
		if err := once(fields, name, value); err != nil {
			return nil, err
		}
	}
}

// once puts a name into an object that has it in no letters yet.
func once(object map[string]any, name string, value any) error {
	if strings.ContainsRune(name, 0) {
		return fmt.Errorf("%q ends early for some", name)
	}
	for other := range object {
		if strings.EqualFold(other, name) {
			return fmt.Errorf("%q is there in two ways", name)
		}
	}
	object[name] = value
	return nil
}

// Decode decodes JSON as a server does that puts the members of an object so.
func Decode(body []byte, put func(object map[string]any, name string, value any) error) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := decode(d, put)
	if err == nil && d.More() {
		err = errors.New("something stands behind the JSON")
	}
	return v, err
}

func decode(d *json.Decoder, put func(object map[string]any, name string, value any) error) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := decode(d, put)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decode(d, put)
			if err != nil {
				return nil, err
			}
			if err := put(object, key.(string), value); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// Said is a member as text; empty if absent. A path leads into objects with dots.
func Said(object map[string]any, path string) string {
	name, rest, below := strings.Cut(path, ".")
	v, there := object[name]
	if inner, ok := v.(map[string]any); below && ok {
		return Said(inner, rest)
	}
	if !there || below || v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
