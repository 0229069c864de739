package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxSteps is the most subschemas that one check of each may need, with all references
// followed. The largest schemas of SDKs need some thousands; 34 definitions of 2 KB that
// refer to the next one twice would need 2^34.
const maxSteps = 50_000

// counter counts the steps of subschemas, each of which it enters once.
type counter map[*jsonschema.Schema]int

// steps is how many subschemas are checked for an answer in which each member and element
// that a schema speaks of is there once; at most maxSteps+1. A schema that contains itself
// is counted once: how often it is entered depends on the depth of the answer.
func (n counter) steps(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	if known, ok := n[s]; ok {
		return known
	}
	n[s] = 1
	sum := 1
	add := func(subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			sum = min(maxSteps+1, sum+n.steps(sub))
		}
	}
	addAny := func(v any) {
		switch v := v.(type) {
		case *jsonschema.Schema:
			add(v)
		case []*jsonschema.Schema:
			add(v...)
		}
	}
	add(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains,
		s.Items2020, s.UnevaluatedItems)
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
	}
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	add(s.PrefixItems...)
	for _, sub := range s.Properties {
		add(sub)
	}
	for _, sub := range s.PatternProperties {
		add(sub)
	}
	for _, sub := range s.DependentSchemas {
		add(sub)
	}
	for _, sub := range s.Dependencies {
		addAny(sub)
	}
	addAny(s.AdditionalProperties)
	addAny(s.Items)
	addAny(s.AdditionalItems)
	n[s] = sum
	return sum
}
