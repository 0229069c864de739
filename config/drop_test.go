package config

import (
	"fmt"
	"slices"
	"testing"
)

func TestMembersThatCostTheOperatorAreDroppedByDefault(t *testing.T) {
	f := func(upstream string, want ...string) []string {
		t.Helper()
		c, err := Parse("f.yaml", []byte(fmt.Sprintf(`
upstreams: [{ name: u, %s }]
models: [{ id: m, context_tokens: 1000, price: free, targets: [{ upstream: u }] }]
`, upstream)), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Upstreams[0].Drop
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s: %s is not dropped", upstream, name)
			}
		}
		return got
	}
	f(`base_url: "http://10.0.0.9:8000/v1"`, "service_tier", "models", "route", "provider", "plugins",
		"web_search_options", "prediction", "modalities", "audio", "functions", "function_call",
		"thinking", "best_of", "background", "max_output_tokens", "extra_body", "data_sources",
		"truncate_prompt_tokens", "use_beam_search", "min_tokens", "ignore_eos", "cache_control.ttl")
	f(`base_url: "https://east.openai.azure.com/openai/v1"`, "service_tier", "dataSources")
	f(`base_url: "https://generativelanguage.googleapis.com/v1beta/openai"`, "service_tier", "google")
	if got := f(`base_url: "https://fakeopenai.azure.com/v1"`); slices.Contains(got, "dataSources") {
		t.Error("another host has Azure's list")
	}
	if got := f(`base_url: "https://api.openai.com/v1", drop: []`); len(got) != 0 {
		t.Errorf("an empty list drops %q", got)
	}
	if got := f(`base_url: "https://api.openai.com/v1", drop: [default, logit_bias]`, "service_tier",
		"logit_bias"); len(got) != len(costly)+1 {
		t.Errorf("default and one more are %d", len(got))
	}
	if got := f(`base_url: "https://api.openai.com/v1", drop: [seed]`, "seed"); len(got) != 1 {
		t.Errorf("one name drops %q", got)
	}
	if got := f(`base_url: "https://api.anthropic.com/v1", dialect: anthropic`); len(got) != 0 {
		t.Errorf("a dialect with bodies of its own drops %q", got)
	}
	// With characters, no list lets an upstream see the names that reveal their prompts.
	for _, drop := range []string{"", ", drop: []", ", drop: [default, seed]"} {
		for _, name := range revealing {
			f(`base_url: "https://api.openai.com/v1"`+drop+"} ]\ncharacters: {}\n#", name)
		}
	}
	names := len(costly) + len(revealing)
	for _, h := range costlyAt {
		names += len(h.names)
	}
	if names+10 > maxDrops {
		t.Errorf("the built-in lists have %d names of at most %d together: operators have no room", names, maxDrops)
	}
}
