package config

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// editorSchema is the schema as an editor uses it.
func editorSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("farebox.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("farebox.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a file as a YAML editor sees it; nil: it is not YAML.
func instance(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	src, r := newSource(name, data)
	if r.err() != nil {
		return nil
	}
	root := parseTree(src, r)
	if r.err() != nil || root == nil {
		return nil
	}
	return plain(root)
}

// plain is a node with the types of YAML's core schema.
func plain(n *node) any {
	switch n.kind {
	case mappingNode:
		out := map[string]any{}
		for _, k := range n.pairs {
			out[k.name] = plain(k.value)
		}
		return out
	case sequenceNode:
		out := []any{}
		for _, item := range n.items {
			out = append(out, plain(item))
		}
		return out
	case nullNode:
		return nil
	}
	switch {
	case n.quoted || n.block:
	case looksBool(n.text):
		return strings.EqualFold(n.text, "true")
	case jsonNumber.MatchString(n.text):
		return json.Number(n.text)
	}
	return n.text
}

// An editor that marks a good config teaches operators to ignore it.
func TestSchemaAcceptsEveryGoodFile(t *testing.T) {
	s := editorSchema(t)
	for _, name := range append(append(files(t, "testdata/*.good.yaml"), files(t, "examples/*.yaml")...), "demo.yaml") {
		if err := s.Validate(instance(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema finds errors that need no other value: unknown keys, types, words and ranges.
func TestSchemaRefusesBadFiles(t *testing.T) {
	s := editorSchema(t)
	n := 0
	for name := range strings.FieldsSeq(`address_without_quotes api_key_list_unknown brand_aliases_too_many characters_unknown_key
		context_missing count_with_commas count_with_thousands_letter created_in_milliseconds deprecation_without_dates
		dialect_unknown duration_in_days duration_without_unit effort_unknown embedding_with_text_keys exponent_in_a_count
		group_where_text_belongs image_price_missing image_with_text_keys limit_negative links_unknown log_level_unknown
		minimum_balance_too_large model_without_id music_with_keys_of_others number_where_text_belongs
		one_value_where_a_list_belongs price_missing price_negative price_with_a_comma price_with_currency_sign
		price_with_exponent price_word quantization_unknown quoted_number redis_db_out_of_range secret_is_a_list
		size_with_unknown_unit slice_too_small switch_that_is_neither target_weight_zero targets_missing tee_accepts_revoked
		temperature_out_of_range text_where_a_group_belongs text_with_image_keys tokenizer_unknown type_unknown unknown_key
		unknown_key_of_another_gateway upstream_without_name video_inputs video_with_picture_keys x402_out_of_range`) {
		v := instance(t, "testdata/"+name+".bad.yaml")
		if v == nil {
			t.Errorf("%s is not YAML", name)
		} else if s.Validate(v) == nil {
			t.Errorf("the schema accepts %s", name)
		}
		n++
	}
	if n < 50 {
		t.Errorf("only %d files", n)
	}
}
