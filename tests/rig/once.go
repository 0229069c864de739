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
// object or a form has a name twice, in whatever letters, servers differ in what they read:
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
	d := json.NewDecoder(bytes.NewReader(sent.Body))
	d.UseNumber()
	v, err := once(d)
	if err == nil && d.More() {
		err = errors.New("something stands behind the JSON")
	}
	object, ok := v.(map[string]any)
	if err == nil && !ok {
		err = errors.New("it is no object")
	}
	return object, err
}

// File is a file of a form.
type File string

func formOnce(body []byte, boundary string) (map[string]any, error) {
	fields, seen := map[string]any{}, map[string]bool{}
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
		list, again := fields[name].([]any)
		if !again {
			if err := first(name, seen); err != nil {
				return nil, err
			}
		}
		if fields[name] = value; again || strings.HasSuffix(name, "[]") || name == "images" {
			fields[name] = append(list, value)
		}
	}
}

// once reads a value of which every reader reads the same.
func once(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := once(d)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object, seen := map[string]any{}, map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			if err := first(key.(string), seen); err != nil {
				return nil, err
			}
			if object[key.(string)], err = once(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// first notes a name, and says what is wrong with one that was there in some letters.
func first(name string, seen map[string]bool) error {
	folded := strings.ToLower(strings.ToUpper(name)) // some letters have two small ones
	if seen[folded] || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%q is there in two ways", name)
	}
	seen[folded] = true
	return nil
}

// Said is a member as text; empty: there is none. A path leads into objects with dots.
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
