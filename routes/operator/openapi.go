package operator

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
)

type object = map[string]any

// document makes the OpenAPI document (3.1) from the types of the table.
type document struct {
	schemas object
	names   map[reflect.Type]string
}

// openAPI answers with the document, which is the same for every role.
func (a *API) openAPI(ctx *fasthttp.RequestCtx, _ billing.Actor, _ []byte) *refusal {
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.SetBodyRaw(a.described())
	return nil
}

func (a *API) describe() []byte {
	o := document{schemas: object{"Error": object{"type": "object", "required": []string{"error"}, "properties": object{
		"error": object{"type": "string"}, "code": object{"type": "string"},
		"issues": object{"type": "array", "items": object{"type": "object"}},
		"first":  object{"description": "What an earlier call with the same reference did"},
	}}}, names: map[reflect.Type]string{}}
	paths := map[string]object{}
	for _, r := range a.rows {
		path := r.Path
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(r.Method)] = o.operation(r)
	}
	body, _ := json.Marshal(object{ // it consists of maps, lists and texts
		"openapi": "3.1.0",
		"info":    object{"title": "farebox operators", "version": a.gateway.Version(), "description": "Amounts are decimal text."},
		"servers": []object{{"url": Prefix}}, "paths": paths, "security": []object{{"token": []string{}}},
		"components": object{"schemas": o.schemas, "securitySchemes": object{
			"token": object{"type": "http", "scheme": "bearer", "description": "An operator's token; the socket needs none"}}},
	})
	return body
}

// operation describes a row.
func (o *document) operation(r *row) object {
	headers, inBody := []object{}, []member{}
	for _, m := range r.members {
		in := "query"
		switch {
		case slices.Contains(r.parts, "{"+m.name+"}"):
			in = "path"
		case r.Method != fasthttp.MethodGet:
			inBody = append(inBody, m)
			continue
		}
		headers = append(headers, object{"name": m.name, "in": in, "required": in == "path", "schema": o.schema(m.typ)})
	}
	if r.lists != nil && r.Method == fasthttp.MethodGet {
		headers = append(headers, object{"name": "format", "in": "query", "schema": object{"enum": formats}})
	}
	success := object{"description": "Success"}
	if r.raw == nil {
		success["content"] = object{"application/json": object{"schema": o.answer(r)}}
	}
	operation := object{"operationId": r.Name, "x-role": r.Right.String(), "tags": []string{r.parts[0]},
		"summary": summary(r.Name), "responses": object{"200": success,
			"4XX": errorAnswer("The call was refused"), "5XX": errorAnswer("The call failed")}}
	if r.Method != fasthttp.MethodGet {
		headers = append(headers, header(headerChange, true, object{"type": "string", "enum": []string{"1"}}))
		if r.Change {
			headers = append(headers, header("Idempotency-Key", false, object{"type": "string", "maxLength": 256}),
				header(headerReason, false, object{"type": "string", "maxLength": 256}))
		}
		if r.Method == fasthttp.MethodPatch {
			headers = append(headers, header("If-Match", false, object{"type": "string"}))
		}
		if len(inBody) > 0 {
			operation["requestBody"] = object{"required": slices.ContainsFunc(inBody, func(m member) bool { return !m.optional }),
				"content": object{"application/json": object{"schema": o.members(inBody)}}}
		}
	}
	if len(headers) > 0 {
		operation["parameters"] = headers
	}
	return operation
}

func summary(name string) string {
	text := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

func header(name string, required bool, schema object) object {
	return object{"name": name, "in": "header", "required": required, "schema": schema}
}

func errorAnswer(description string) object {
	return object{"description": description,
		"content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
}

// answer describes the answer of a row. A list without pages has the shape of one page.
func (o *document) answer(r *row) object {
	if r.Answer.Kind() != reflect.Slice {
		return o.schema(r.Answer)
	}
	return object{"type": "object", "required": []string{"data", "next_cursor"}, "properties": object{
		"data": o.schema(r.Answer), "next_cursor": object{"type": "string"}}}
}

// schema describes a type as encoding/json writes and reads it.
func (o *document) schema(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		return o.schema(t.Elem())
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[billing.Nano]():
		return object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?$`}
	case t.Implements(jsonWriter) || reflect.PointerTo(t).Implements(jsonWriter) || t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case isText(t):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		kind := any("array")
		if t.Kind() == reflect.Slice {
			kind = []string{"array", "null"}
		}
		return object{"type": kind, "items": o.schema(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": o.schema(t.Elem())}
	case reflect.Struct:
		return o.component(t)
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

// component describes a struct once, by its name.
func (o *document) component(t reflect.Type) object {
	if t.Name() == "" {
		return o.members(membersOf(t))
	}
	name, known := o.names[t]
	if !known {
		name = componentName(t)
		for _, taken := o.schemas[name]; taken; _, taken = o.schemas[name] {
			name += "2" // of another package
		}
		o.names[t], o.schemas[name] = name, object{}
		o.schemas[name] = o.members(membersOf(t))
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// componentName is the name of a type; of List[farebox/billing.KeyInfo] it is KeyInfoList.
func componentName(t reflect.Type) string {
	name, of, generic := strings.Cut(strings.TrimSuffix(t.Name(), "]"), "[")
	if !generic {
		return name
	}
	return of[strings.LastIndexByte(of, '.')+1:] + name
}

func (o *document) members(list []member) object {
	properties, required := object{}, []string{}
	for _, m := range list {
		schema := o.schema(m.typ)
		if m.typ.Kind() == reflect.Pointer {
			schema = object{"anyOf": []object{schema, {"type": "null"}}}
		}
		if properties[m.name] = schema; !m.optional {
			required = append(required, m.name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}
