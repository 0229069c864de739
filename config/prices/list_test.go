package prices

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheListIsUsable(t *testing.T) {
	l := Builtin()
	if _, err := time.Parse(time.DateOnly, l.Date); err != nil || !strings.HasPrefix(l.Source, "litellm ") {
		t.Errorf("the list is of %q, %q", l.Source, l.Date)
	}
	for _, v := range Vendors {
		sold := 0
		for _, m := range l.Of(v.Name) {
			if m.Unsold != "" {
				continue
			}
			sold++
			for _, r := range []*big.Rat{m.Price.Input, m.Price.Output, m.Price.CacheRead, m.Price.CacheWrite} {
				if r != nil && (r.Sign() <= 0 || r.Cmp(big.NewRat(1, 1000)) > 0) {
					t.Errorf("%s/%s costs %s a token", v.Name, m.Name, r.FloatString(12))
				}
			}
			if m.Long != nil && (m.Long.Above <= 0 || m.Long.Above >= m.Context || m.Long.Input == nil || m.Long.Output == nil) {
				t.Errorf("%s/%s has long prompts above %d of %d", v.Name, m.Name, m.Long.Above, m.Context)
			}
		}
		// These list no prices, or state them themselves.
		if silent := v.Name == "openrouter" || v.Name == "nvidia_nim"; sold == 0 && !silent {
			t.Errorf("%s sells nothing", v.Name)
		}
	}
	if len(l.Models) < 1000 {
		t.Errorf("%d models", len(l.Models))
	}
	if m := l.Find("openai", "gpt-image-1"); m == nil || m.Unsold == "" {
		t.Error("gpt-image-1 is sold by tokens")
	}
}

// The list equals the script's output for the package that it names.
func TestLongTheListIsOfItsPackage(t *testing.T) {
	python := filepath.Join("..", "..", "bench", "clients", "python", ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("make setup-long has not been run: %v", err)
	}
	file := filepath.Join(t.TempDir(), "list.json.gz")
	l := Builtin()
	if out, err := exec.Command(python, "update.py", strings.TrimPrefix(l.Source, "litellm "), l.Date, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	unpacked := func(data []byte) string {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if unpacked(made) != unpacked(packed) {
		t.Error("list.json.gz differs from the output of update.py")
	}
}

func TestParseReadsPricesExactly(t *testing.T) {
	l, err := Parse([]byte(`{
		"_": {"source": "a file", "date": "2026-01-02"},
		"m": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 300000, "max_output_tokens": 1000,
			"input_cost_per_token": 2.5e-07, "output_cost_per_token": 0.000002, "output_cost_per_reasoning_token": 3e-06, "cache_read_input_token_cost": 0,
			"input_cost_per_token_above_200k_tokens": 5e-07, "output_cost_per_token_above_200k_tokens": 4e-06,
			"input_cost_per_audio_token": 1e-06, "supports_audio_input": true, "supports_vision": true, "supports_reasoning": true,
			"supports_minimal_reasoning_effort": true, "deprecation_date": "2030-01-01", "successor_model": "openai/n"},
		"dashscope/t": {"litellm_provider": "dashscope", "mode": "chat", "max_tokens": "1000000", "tiered_pricing": [
			{"range": [0, 32000], "input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06},
			{"range": [32000, 128000], "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05},
			{"range": [128000, 252000], "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05}]},
		"vertex_ai/claude": {"litellm_provider": "vertex_ai-anthropic_models", "mode": "chat", "max_tokens": 10, "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
		"per/request": {"litellm_provider": "perplexity", "mode": "chat", "max_tokens": 10, "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "input_cost_per_request": 0.005},
		"free": {"litellm_provider": "openai", "mode": "chat", "max_tokens": 10, "input_cost_per_token": 0, "output_cost_per_token": 0},
		"whisper": {"litellm_provider": "openai", "mode": "audio_transcription"},
		"other": {"litellm_provider": "openai"}
	}`))
	if err != nil || l.Source != "a file" {
		t.Fatal(err, l.Source)
	}
	one, fifth := big.NewRat(1, 1), big.NewRat(6, 5)
	m := l.Find("openai", "m")
	for _, c := range []struct{ got, want string }{
		{PerMillion(m.Price.Input, one), "0.25"}, {PerMillion(m.Price.Input, fifth), "0.30"}, {PerMillion(m.Price.Output, one), "3.00"},
		{PerMillion(m.Price.CacheRead, one), ""}, {PerMillion(m.Long.Input, one), "0.50"}, {PerMillion(m.Long.Output, one), "4.00"},
		{PerMillion(big.NewRat(1, 3_000_000), one), "0.333334"}, {PerMillion(big.NewRat(1, 1), one), "1000000.00"},
		{strings.Join(m.Dearer, " "), "audio"}, {strings.Join(m.Efforts, " "), "minimal low medium high"}, {m.Successor, "n"},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
	if m.Long.Above != 200000 || m.Audio || !m.Vision || m.Context != 300000 || m.Output != 1000 {
		t.Errorf("%+v", m)
	}
	tiered := l.Find("dashscope", "t")
	if tiered.Long.Above != 32000 || PerMillion(tiered.Long.Output, one) != "15.00" || PerMillion(tiered.Price.Input, one) != "1.00" {
		t.Errorf("%+v %+v", tiered.Price, tiered.Long)
	}
	if l.Find("vertex_ai", "claude") == nil {
		t.Error("a model of Vertex AI is not found")
	}
	for vendor, name := range map[string]string{"perplexity": "per/request", "openai": "free"} {
		if m := l.Find(vendor, name); m == nil || m.Unsold == "" {
			t.Errorf("%s is sold", name)
		}
	}
	if len(l.Models) != 6 {
		t.Errorf("%d models", len(l.Models))
	}
	for _, bad := range []string{`[]`, `{"a":1}`, `{"a":{"litellm_provider":"openai","mode":"chat","input_cost_per_token":"1e999999999"}}`,
		`{"a":{"litellm_provider":"openai","mode":"chat","input_cost_per_token":-1}}`,
		`{"a":{"litellm_provider":"openai","mode":"chat","input_cost_per_token":{}}}`, `{"a":{"litellm_provider":"openai","mode":"chat","tiered_pricing":[{}]}}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s is taken for a list", bad)
		}
	}
}

func TestVendorsAreFound(t *testing.T) {
	for _, c := range []struct{ dialect, url, want string }{
		{"openai", "https://api.openai.com/v1", "openai"}, {"anthropic", "https://API.anthropic.com/v1", "anthropic"},
		{"azure", "https://x.openai.azure.com", "azure"}, {"openai", "https://api.groq.com/openai/v1", "groq"},
		{"openai", "http://10.0.0.1:8000/v1", ""}, {"vertex", "", "vertex_ai"}, {"openai", "%", ""},
	} {
		name := ""
		if v := VendorOf(c.dialect, c.url); v != nil {
			name = v.Name
		}
		if name != c.want {
			t.Errorf("%s %s is of %q", c.dialect, c.url, name)
		}
	}
	if at := VendorNamed("gemini").At("http://127.0.0.1:80/"); at != "http://127.0.0.1:80/v1beta" {
		t.Error(at)
	}
	if at := VendorNamed("openai").At("http://127.0.0.1/own/v2"); at != "http://127.0.0.1/own/v2" {
		t.Error(at)
	}
}

// No list results in a price below 0 or a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":{"litellm_provider":"openai","mode":"chat","max_tokens":10,"input_cost_per_token":1e-7,"output_cost_per_token":1e-6}}`))
	f.Add([]byte(`{"a":{"litellm_provider":"x","mode":"chat","max_tokens":1e9,"tiered_pricing":[{"range":[0,1]},{"range":[5],"input_cost_per_token":1}]}}`))
	f.Add([]byte(`{"_":{"date":1},"b":{"mode":"embedding","litellm_provider":"bedrock_converse","input_cost_per_token_above_1k_tokens":"2"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Parse(data)
		if err != nil {
			return
		}
		for _, m := range l.Models {
			for _, r := range []*big.Rat{m.Price.Input, m.Price.Output} {
				if text := PerMillion(r, big.NewRat(6, 5)); strings.HasPrefix(text, "-") {
					t.Errorf("%s costs %s", m.Name, text)
				}
			}
		}
	})
}
