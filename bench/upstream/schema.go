package upstream

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

const maxSchemaDepth = 32

// exampleJSON is a value that conforms to a JSON schema: every property is
// present, the first of several allowed values is taken.
func exampleJSON(schema gjson.Result) string {
	if !schema.IsObject() {
		return "{}"
	}
	return string(example(nil, schema, schema, 0))
}

func example(dst []byte, root, schema gjson.Result, depth int) []byte {
	if depth > maxSchemaDepth {
		return append(dst, "null"...)
	}
	if ref := schema.Get("$ref").Str; strings.HasPrefix(ref, "#/") {
		path := strings.ReplaceAll(ref[2:], "/", ".")
		return example(dst, root, root.Get(path), depth+1)
	}
	if v := schema.Get("const"); v.Exists() {
		return append(dst, v.Raw...)
	}
	if v := schema.Get("enum.0"); v.Exists() {
		return append(dst, v.Raw...)
	}
	for _, name := range []string{"anyOf.0", "oneOf.0", "allOf.0"} {
		if v := schema.Get(name); v.Exists() {
			return example(dst, root, v, depth+1)
		}
	}
	kind := schema.Get("type")
	if kind.IsArray() {
		kind = kind.Get("0")
	}
	switch kind.Str {
	case "string":
		return exampleString(dst, schema)
	case "integer":
		return exampleNumber(dst, schema, "7")
	case "number":
		return exampleNumber(dst, schema, "1.5")
	case "boolean":
		return append(dst, "true"...)
	case "null":
		return append(dst, "null"...)
	case "array":
		dst = append(dst, '[')
		n := max(1, int(schema.Get("minItems").Int()))
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = example(dst, root, schema.Get("items"), depth+1)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	comma := false
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(dst, name.Raw...)
		dst = append(dst, ':')
		dst = example(dst, root, property, depth+1)
		return true
	})
	return append(dst, '}')
}

func exampleString(dst []byte, schema gjson.Result) []byte {
	text := "river"
	switch schema.Get("format").Str {
	case "date-time":
		text = "2026-01-02T03:04:05Z"
	case "date":
		text = "2026-01-02"
	case "email":
		text = "river@example.org"
	case "uri":
		text = "https://example.org/"
	case "uuid":
		text = "00000000-0000-4000-8000-000000000000"
	}
	for int64(len(text)) < schema.Get("minLength").Int() {
		text += " river"
	}
	if limit := schema.Get("maxLength"); limit.Exists() && int64(len(text)) > limit.Int() {
		text = text[:limit.Int()]
	}
	return strconv.AppendQuote(dst, text)
}

func exampleNumber(dst []byte, schema gjson.Result, usual string) []byte {
	if v := schema.Get("minimum"); v.Exists() && v.Num > 7 {
		return append(dst, v.Raw...)
	}
	if v := schema.Get("maximum"); v.Exists() && v.Num < 7 {
		return append(dst, v.Raw...)
	}
	return append(dst, usual...)
}
