package routes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"farebox/config"
	"farebox/proxy/scan"
)

// The OpenAPI document is made of the route table and its rules, so that requests are described
// as they are checked. The answers of endpoints are in answers.yaml.

//go:embed answers.yaml
var answersText []byte

// answers is the content of answers.yaml.
type answers struct {
	Components map[string]any
	Operations map[string]struct {
		Summary string
		JSON    any
		Other   []string          // media types of answers that are not JSON
		Example map[string]any    // of a body
		Model   string            // the type of the example's model; empty: it names none
		Headers map[string]string // of answers, without the brand that begins them, and their meaning
	}
	Hidden []string
}

var readAnswers = sync.OnceValues(func() (a *answers, err error) {
	a = &answers{}
	return a, yaml.Unmarshal(answersText, a)
})

// openAPI is the endpoint of the document.
type openAPI struct{ g *Gateway }

// Open is Capability.
func (o *openAPI) Open(*Gateway) []Row {
	return []Row{{Method: "GET", Path: "/openapi.json", Access: Public, Form: NoBody, Limit: SmallBody, Serve: o.serve}}
}

func (o *openAPI) serve(c *Call) *Error {
	document, err := c.snap.openAPI()
	if err != nil {
		c.g.log.Error().Err(err).Msg("cannot make the OpenAPI document")
		return &Error{Status: 500, Message: "The document cannot be made."}
	}
	c.Ctx.Response.Header.Set("Cache-Control", "public, max-age=300")
	as := c.codingFor()
	if as == identity {
		return c.WriteJSON(document)
	}
	// It is compressed once for all clients without a key.
	small, ok := c.snap.zipped.Load(as)
	if !ok {
		z := newZip(as)
		small, _ = c.snap.zipped.LoadOrStore(as, bytes.Clone(z.end(document, true)))
		z.release()
	}
	return c.WriteJSON(small.([]byte))
}

// OpenAPI is the document (OpenAPI 3.1) of all endpoints that the gateway serves under its
// config.
func (g *Gateway) OpenAPI() ([]byte, error) { return g.live.Load().openAPI() }

type object = map[string]any

// describe makes the document of a snapshot.
func (g *Gateway) describe(s *snapshot) ([]byte, error) {
	known, err := readAnswers()
	if err != nil {
		return nil, fmt.Errorf("answers.yaml: %w", err)
	}
	components, paths := object{}, map[string]object{}
	for name, of := range known.Components {
		components[name] = answerSchema(of)
	}
	components["Error"] = object{"type": "object", "required": []string{"error"}, "properties": object{
		"error": object{"type": []string{"string", "object"}}, "code": object{"type": "string"}}}
	for i := range g.rows {
		row := &g.rows[i]
		path := strings.ReplaceAll(row.Path, ":*}", "}")
		name := row.Method + " " + path
		if row.Offered != nil && !row.Offered(s.cfg) || slices.Contains(known.Hidden, name) {
			continue
		}
		answer, ok := known.Operations[name]
		if !ok {
			return nil, fmt.Errorf("answers.yaml says nothing of %s", name)
		}
		content := object{}
		if answer.JSON != nil {
			content["application/json"] = object{"schema": answerSchema(answer.JSON)}
		}
		for _, typ := range answer.Other {
			content[typ] = object{}
		}
		success := object{"description": "Success", "content": content}
		if len(answer.Headers) > 0 {
			headers := object{}
			for name, means := range answer.Headers {
				headers["x-"+s.cfg.Brand+"-"+name] = object{"description": means, "schema": object{"type": "string"}}
			}
			success["headers"] = headers
		}
		operation := object{
			"operationId": operationID(row.Method, path), "summary": answer.Summary, "tags": []string{strings.Split(path, "/")[1]},
			"security": row.security(s.cfg), "responses": object{
				"200": success,
				"4XX": errorAnswer("The request was refused"), "5XX": errorAnswer("The request could not be carried out"),
			},
		}
		if parameters := row.parameters(path); len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if book := s.books[row]; book != nil || row.Form == RawJSON {
			body := row.requestBody(book)
			if answer.Example != nil {
				s.addExample(body, answer.Example, answer.Model)
			}
			operation["requestBody"] = body
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(row.Method)] = operation
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": s.cfg.Brand, "version": string(g.version), "description": "Errors name the field, the reason and " +
			"the allowed range. An optional member may also be null. Unknown members of chat requests are passed on."},
		"servers": []object{{"url": Prefix}}, "paths": paths,
		"components": object{"schemas": components, "securitySchemes": object{
			"key":    object{"type": "http", "scheme": "bearer", "description": "An API key"},
			"apiKey": object{"type": "apiKey", "in": "header", "name": "x-api-key"},
			"wallet": object{"type": "apiKey", "in": "header", "name": "SIGN-IN-WITH-X", "description": "A message that a wallet signed"},
		}},
	})
}

func errorAnswer(description string) object {
	return object{"description": description, "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
}

// operationID is a method and a path in one word: postChatCompletions.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, word := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}_-.", r) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// security is the list of credentials of which one allows a request.
func (r *Row) security(cfg *config.Config) []object {
	var list []object
	if r.Access == Public || r.Access == Catalog && cfg.Compat.PublicCatalog {
		list = append(list, object{})
	}
	if r.Access != Public {
		list = append(list, object{"key": []string{}})
	}
	if r.KeyHeader != "" {
		list = append(list, object{"apiKey": []string{}})
	}
	if r.Wallet && cfg.X402 != nil && cfg.X402.Inference {
		list = append(list, object{"wallet": []string{}})
	}
	return list
}

// parameters are those of the path and of the query.
func (r *Row) parameters(path string) (list []object) {
	for rest := path; ; {
		_, behind, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		name, after, _ := strings.Cut(behind, "}")
		list = append(list, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		rest = after
	}
	for _, name := range sortedKeys(r.Params) {
		rule := r.Params[name]
		schema := ruleSchema(rule)
		if rule.Kinds&Array != 0 {
			schema = object{"type": "array", "items": object{"type": "string"}}
		}
		list = append(list, object{"name": name, "in": "query", "required": rule.Required, "schema": schema})
	}
	return list
}

func sortedKeys(m Params) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// requestBody describes the body of the route; book is nil for any JSON.
func (r *Row) requestBody(book *Rulebook) object {
	content := object{}
	if r.Form != FormBody {
		schema := object{}
		if book != nil {
			schema = book.schema(book.Root)
		}
		content["application/json"] = object{"schema": schema}
	}
	if r.Form == FormBody || r.Form == JSONOrForm {
		content["multipart/form-data"] = object{"schema": book.schema(book.Root)}
	}
	return object{"required": r.Form != JSONOrNone, "content": content}
}

// addExample adds an example of a body with a model of the config, where there is one.
func (s *snapshot) addExample(body, example object, modelType string) {
	example = maps.Clone(example)
	if modelType != "" {
		at := slices.IndexFunc(s.cfg.Models, func(m config.Model) bool { return m.Type == modelType })
		if at < 0 {
			return
		}
		example["model"] = s.cfg.Models[at].ID
	}
	for _, content := range body["content"].(object) {
		content.(object)["example"] = example
	}
}

// schema describes an object by the rules of its members.
func (b *Rulebook) schema(s *scan.Shape) object {
	properties, required := object{}, []string{}
	for id := range s.Len() {
		top := s == b.Root
		if top && b.Takes != nil && !slices.Contains(b.Takes, id) {
			continue
		}
		rule, child := b.Rule(s, id), s.Child(id)
		if rule == nil && child == nil || camelCase(s.Name(id)) != s.Name(id) && s.ID(camelCase(s.Name(id))) >= 0 {
			continue // anything, or the other spelling of a member
		}
		member := object{}
		if rule != nil {
			member = ruleSchema(rule)
			if rule.Required || top && slices.Contains(b.Needs, id) {
				required = append(required, s.Name(id))
			}
		}
		if child != nil {
			below := b.schema(child)
			if rule == nil || rule.Kinds&Object != 0 {
				member["properties"] = below["properties"]
				if needs, ok := below["required"]; ok {
					member["required"] = needs
				}
			}
			if rule != nil && rule.Kinds&Array != 0 {
				member["items"] = below
			}
		}
		properties[s.Name(id)] = member
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// camelCase is the spelling of consumption_limit as consumptionLimit.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// ruleSchema describes a value by its rule.
func ruleSchema(r *Rule) object {
	schema := object{}
	var types []string
	for _, n := range kindNames {
		if r.Kinds&n.k != 0 {
			name := n.name
			if name == "number" && r.Integer {
				name = "integer"
			}
			types = append(types, name)
		}
	}
	switch {
	case len(types) == 1:
		schema["type"] = types[0]
	case r.Kinds|Null != String|Number|Bool|Null|Object|Array:
		schema["type"] = types
	}
	if r.Min != 0 || r.Max != 0 {
		low := "minimum"
		if r.Above {
			low = "exclusiveMinimum"
		}
		schema[low] = r.Min
		if !math.IsInf(r.Max, 1) {
			schema["maximum"] = r.Max
		}
	}
	if r.NonEmpty && r.Kinds&String != 0 {
		schema["minLength"] = 1
	}
	if r.NonEmpty && r.Kinds&Array != 0 {
		schema["minItems"] = 1
	}
	if most := max(r.Length, r.Characters); most > 0 && r.Kinds&String != 0 {
		schema["maxLength"] = most
	}
	if most := max(r.Items, map[bool]int{true: r.Length}[r.Kinds&String == 0]); most > 0 && r.Kinds&Array != 0 {
		schema["maxItems"] = most
	}
	if r.Kinds&Array != 0 {
		schema["items"] = object{}
		if r.Elements != nil {
			schema["items"] = ruleSchema(r.Elements)
		}
	}
	if r.Enum != nil && r.Kinds == String {
		schema["enum"] = r.Enum
	} else if r.Enum != nil {
		rest := *r
		rest.Kinds, rest.Enum = r.Kinds&^String, nil
		return object{"anyOf": []object{{"type": "string", "enum": r.Enum}, ruleSchema(&rest)}}
	}
	if r.Format != "" {
		schema["format"] = r.Format
	}
	if r.Default != nil {
		schema["default"] = r.Default
	}
	return schema
}

// answerSchema reads the notation of answers.yaml.
func answerSchema(of any) object {
	switch of := of.(type) {
	case string:
		name, null := strings.CutSuffix(of, "?")
		switch {
		case strings.HasPrefix(of, "$"):
			return object{"$ref": "#/components/schemas/" + of[1:]}
		case name == "any":
			return object{}
		case null:
			return object{"type": []string{name, "null"}}
		}
		return object{"type": name}
	case []any:
		return object{"type": "array", "items": answerSchema(of[0])}
	case map[string]any:
		properties, required := object{}, []string{}
		for name, member := range of {
			short, optional := strings.CutSuffix(name, "?")
			if !optional {
				required = append(required, short)
			}
			properties[short] = answerSchema(member)
		}
		slices.Sort(required)
		return object{"type": "object", "properties": properties, "required": required}
	}
	panic(fmt.Sprintf("routes: answers.yaml has a %T", of)) // it is written in the source
}
