package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The JSON Schema for editors. Values that refer to the environment are text, so that
// every scalar may be a text with ${ in it.

const (
	schemaID = "https://json-schema.org/draft/2020-12/schema"
	refersTo = `\$\{`
)

type object = map[string]any

// schemaMaker collects the definitions of groups.
type schemaMaker struct {
	docs fieldDocs
	defs object
}

func (docs fieldDocs) schema() []byte {
	m := &schemaMaker{docs: docs, defs: object{}}
	root := m.group(reflect.TypeFor[Config](), "")
	root["$schema"] = schemaID
	root["title"] = "farebox config"
	root["$defs"] = m.defs
	m.models()
	out, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}

// group returns the schema of a group as the models of a type have it.
func (m *schemaMaker) group(t reflect.Type, typ string) object {
	properties, required := m.properties(t, typ)
	return closed(properties, required)
}

func closed(properties object, required []string) object {
	out := object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

var isRequired = regexp.MustCompile(`\bRequired[.:;]`)

func (m *schemaMaker) properties(t reflect.Type, typ string) (properties object, required []string) {
	properties = object{}
	for _, k := range groupOf(t).keys {
		if k.name == "" || len(k.only) > 0 && typ != "" && !slices.Contains(k.only, typ) {
			continue
		}
		d := m.docs.describe(t, k)
		property := m.value(t.Field(k.index).Type, k, typ)
		property["description"] = d.sentence(t, k)
		if text := t.Field(k.index).Tag.Get("default") + t.Field(k.index).Tag.Get("zero"); text != "" {
			if v, ok := plainDefault(k.initial); ok {
				property["default"] = v
			}
		}
		properties[k.name] = property
		if isRequired.MatchString(d.meaning) {
			required = append(required, k.name)
		}
	}
	return properties, required
}

// plainDefault returns a default as a JSON value.
func plainDefault(v reflect.Value) (any, bool) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch of := v.Interface().(type) {
	case time.Duration:
		return short(of), true
	case Size:
		return strings.TrimSuffix(of.String(), " bytes"), true
	case Nano:
		return json.Number(of.String()), true
	case Each:
		return json.Number(of.String()), true
	case Pico:
		return json.Number(of.PerMillion()), true
	case bool, int, int64, string, []string, []int:
		return of, true
	}
	return nil, false
}

// value returns the schema of a value; k has the rules of the key.
func (m *schemaMaker) value(t reflect.Type, k *key, typ string) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Model]():
		return object{"$ref": "#/$defs/model"}
	case isGroup(t):
		ref := object{"$ref": "#/$defs/" + m.define(t, typ)}
		if reflect.PointerTo(t).Implements(reflect.TypeFor[priced]()) {
			return object{"anyOf": []object{{"const": freeRate}, ref}}
		}
		return ref
	case t.Kind() == reflect.Slice:
		out := object{"type": []string{"array", "null"}, "items": m.value(t.Elem(), k, typ)}
		if k.most > 0 {
			out["maxItems"] = k.most
		}
		if k.unique != "" {
			out["uniqueItems"] = true
		}
		return out
	case t.Kind() == reflect.Map:
		out := object{"type": []string{"object", "null"}, "additionalProperties": m.value(t.Elem(), &key{}, typ)}
		if k.most > 0 {
			out["maxProperties"] = k.most
		}
		return out
	}
	return scalarSchema(t, k.rule)
}

// define adds the definition of a group, once for each type of models with its own view of it.
func (m *schemaMaker) define(t reflect.Type, typ string) string {
	name := t.Name()
	special := false
	for _, k := range groupOf(t).keys {
		special = special || len(k.only) > 0
	}
	if special {
		name += "-" + typ
	}
	if _, ok := m.defs[name]; !ok {
		m.defs[name] = nil // it is being made
		m.defs[name] = m.group(t, typ)
	}
	return name
}

// scalarSchema returns the schema of one value.
func scalarSchema(t reflect.Type, r *rule) object {
	of := func(types ...string) object {
		return object{"type": append(types, "string", "null"), "pattern": refersTo}
	}
	numbers := func(out object, scale float64) object {
		if r != nil && r.words == nil {
			if least := float64(r.least) / scale; !r.blank {
				out["minimum"] = least
			} else {
				out["minimum"] = 0
			}
			out["maximum"] = float64(r.most) / scale
		}
		return out
	}
	switch t {
	case reflect.TypeFor[Secret]():
		return object{"type": []string{"string", "number", "boolean", "null"}}
	case reflect.TypeFor[time.Duration]():
		return object{"type": []string{"string", "integer", "null"}, "maximum": 0,
			"pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$|` + refersTo}
	case reflect.TypeFor[Size]():
		return object{"type": []string{"integer", "string", "null"}, "minimum": 0, "pattern": `^[0-9]+(KB|MB|GB)?$|` + refersTo}
	case reflect.TypeFor[Nano]():
		return numbers(object{"type": []string{"number", "string", "null"}, "minimum": 0, "pattern": `^[0-9]+(\.[0-9]+)?$|` + refersTo}, 1e9)
	case reflect.TypeFor[Each](), reflect.TypeFor[Pico]():
		return numbers(object{"type": []string{"number", "string", "null"}, "minimum": 0,
			"pattern": `^([0-9]+(\.[0-9]+)?|free)$|` + refersTo}, 1e12)
	case reflect.TypeFor[Decimal]():
		return numbers(object{"type": []string{"number", "string", "null"}, "pattern": `^-?[0-9]+(\.[0-9]+)?$|` + refersTo}, 1e9)
	case reflect.TypeFor[ChainID]():
		return object{"type": []string{"integer", "string", "null"}, "maxLength": maxChainID}
	case reflect.TypeFor[time.Time]():
		return object{"type": []string{"string", "null"}, "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}|` + refersTo}
	}
	switch t.Kind() {
	case reflect.Bool:
		return of("boolean")
	case reflect.Int, reflect.Int64:
		out := numbers(of("integer"), 1)
		if _, ok := out["minimum"]; !ok {
			out["minimum"] = 0
		}
		return out
	}
	if r == nil || r.words == nil {
		return object{"type": []string{"string", "null"}}
	}
	words := []any{nil}
	if r.blank {
		words = append(words, "")
	}
	for _, w := range r.words {
		words = append(words, w)
	}
	return object{"anyOf": []object{{"enum": words}, {"type": "string", "pattern": refersTo}}}
}

// models defines a model of each type, and the choice between them.
func (m *schemaMaker) models() {
	shared, required := m.properties(reflect.TypeFor[Model](), "")
	types := make([]any, 0, len(kinds)+1)
	for _, k := range kinds {
		types = append(types, k.name)
	}
	shared["type"].(object)["enum"] = append(types, nil)
	delete(shared["type"].(object), "type")
	m.defs["model"] = object{"type": "object", "properties": shared, "required": required}
	var choices []object
	for _, k := range kinds {
		properties, required := m.properties(reflect.TypeOf(k.spec()).Elem(), k.name)
		for name := range shared {
			properties[name] = true // it is described above
		}
		is := object{"properties": object{"type": object{"const": k.name}}}
		if k.name != kinds[0].name {
			is["required"] = []string{"type"}
		} else {
			is["properties"] = object{"type": object{"enum": []any{k.name, nil}}}
		}
		then := closed(properties, nil)
		if len(required) > 0 {
			// The list of prices fills these for a model such as openai/*.
			listed := object{"properties": object{"id": object{"pattern": "/\\*$"}}}
			then["if"], then["else"] = listed, object{"required": required}
		}
		choices = append(choices, object{"if": is, "then": then})
	}
	m.defs["model"].(object)["allOf"] = choices
}
