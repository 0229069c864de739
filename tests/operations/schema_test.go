package operations

import (
	"encoding/json"
	"testing"

	"farebox/tests/rig"
)

// An editor reads the output of `farebox config schema`, with nothing else around it.
func TestConfigSchemaIsOneJSONObject(t *testing.T) {
	t.Parallel()
	out, err := rig.RunIn(t, t.TempDir(), "config", "schema")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var schema struct {
		Schema     string                     `json:"$schema"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal([]byte(out), &schema); err != nil || schema.Schema != "https://json-schema.org/draft/2020-12/schema" ||
		schema.Properties["upstreams"] == nil || schema.Properties["models"] == nil {
		t.Errorf("%v: %.300s", err, out)
	}
}
