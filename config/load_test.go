package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the .bad.want files from what is reported now")

// testEnv is the environment of all files in testdata and examples.
func testEnv(name string) (string, bool) {
	v, ok := map[string]string{
		"UPSTREAM_KEY":      "sk-from-the-environment",
		"OPENAI_API_KEY":    "sk-openai",
		"ANTHROPIC_API_KEY": "sk-ant",
		"AZURE_API_KEY":     "azure",
		"GEMINI_API_KEY":    "gemini",
		"BEDROCK_API_KEY":   "bedrock",

		"ELEVENLABS_API_KEY": "labs",

		"AWS_ACCESS_KEY_ID":     "AKIDEXAMPLE",
		"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
		"FAL_KEY":               "fal-1",

		"EMPTY":             "",
		"TEXT":              "hello-from-the-environment",
		"NUMBER":            "4096",
		"POSTGRES_PASSWORD": "postgres",
		"REDIS_PASSWORD":    "redis",
		"PROXY_SECRET":      "a secret of a proxy",

		"REPLICATE_API_TOKEN": "replicate-1",
	}[name]
	return v, ok
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return list
}

func TestGoodFilesLoad(t *testing.T) {
	for _, name := range append(files(t, "testdata/*.good.yaml"), files(t, "examples/*.yaml")...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(name, data, testEnv)
		if err != nil {
			t.Errorf("a good file is refused: %v", err)
		} else if strings.HasPrefix(name, "examples/") {
			noWarnings(t, c)
		}
	}
}

// noWarnings checks files that people copy.
func noWarnings(t *testing.T, c *Config) {
	t.Helper()
	for _, one := range c.Warnings {
		t.Error(one)
	}
}

// unlisted replaces lists that grow with every type of models and every dialect by names,
// so that the messages beside the bad files need no change.
var unlisted = strings.NewReplacer(
	choice(ModelTypes()), "{types}",
	choice((&Config{Limits: Limits{Tiers: builtinTiers()}}).TierNames()), "{tiers}",
	choice(dialectsThat(func(*dialect) bool { return true })), "{dialects}",
	"of dialect "+choice(dialectsThat(func(d *dialect) bool { return d.writes })), "of dialect {dialects of text}",
	"of dialect "+choice(dialectsThat(func(d *dialect) bool { return d.embeds })), "of dialect {dialects of embeddings}",
	"of dialect "+choice(dialectsThat(func(d *dialect) bool { return d.speaks })), "of dialect {dialects of speech}",
	"of dialect "+choice(dialectsThat(func(d *dialect) bool { return d.hears })), "of dialect {dialects of hearing}",
)

// An empty list, or one without names, would still match the text that unlisted expects.
func TestListsInMessagesHaveAllNames(t *testing.T) {
	for list, some := range map[string]string{
		choice(ModelTypes()): "text, embedding, image, upscale",
		choice(dialectsThat(func(*dialect) bool { return true })):       "openai, anthropic, native, fal",
		choice(dialectsThat(func(d *dialect) bool { return d.writes })): "openai, anthropic",
		choice(keysOf(newDecoder(nil, nil).shapes(
			&Model{})...)): "id, embedding_dimensions, price, targets, tokenizer",
	} {
		for name := range strings.SplitSeq(some, ", ") {
			if !slices.Contains(strings.Split(strings.ReplaceAll(list, " or ", ", "), ", "), name) {
				t.Errorf("%s is not in %s", name, list)
			}
		}
	}
}

// Every bad file breaks one rule and must get exactly the message beside it.
func TestBadFilesSayWhatIsWrong(t *testing.T) {
	list := files(t, "testdata/*.bad.yaml")
	if len(list) < 40 {
		t.Fatalf("only %d bad files", len(list))
	}
	for _, name := range list {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".bad.yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(name), data, testEnv)
			var problems *Problems
			if !errors.As(err, &problems) {
				t.Fatalf("a bad file is accepted: %v", err)
			}
			got := unlisted.Replace(err.Error() + "\n")
			wantName := strings.TrimSuffix(name, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(wantName, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wantName)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			for _, secret := range []string{"sk-live", "hunter2", "sk-from-the-environment",
				"hello-from-the-environment"} {
				if strings.Contains(got, secret) {
					t.Errorf("the message shows a secret (%s)", secret)
				}
			}
		})
	}
}

// `farebox account -c` demanded every upstream's secret in the shell of the operator who
// credits an account.
func TestStoreIsFoundWithoutTheSecretsOfUpstreams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "farebox.yaml")
	text := "store: ./ledger\nupstreams:\n  - { name: up, base_url: https://api.example.com/v1, key: " +
		"\"${NOBODY_SETS_THIS_KEY}\" }\nmodels: [{ id: chat }]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := LoadStore(file); err != nil || c.Store != "./ledger" || c.Brand != "svc" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "NOBODY_SETS_THIS_KEY") {
		t.Errorf("serving without the secret: %v", err)
	}
	if err := os.WriteFile(file, []byte("store: postgres://u:${NOBODY_SETS_THIS_EITHER}@db/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadStore(file); err == nil || !strings.Contains(err.Error(), "NOBODY_SETS_THIS_EITHER") {
		t.Errorf("the store's own secret: %v", err)
	}
}
