package config

import (
	"path/filepath"
	"testing"
)

// "I started it from another folder, and the characters were gone."
func TestFolderOfCharactersLiesBesideTheConfig(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"characters: {}": filepath.Join(dir, "characters"),
		"characters: { directory: cast/of/play }":          filepath.Join(dir, "cast", "of", "play"),
		"characters: { directory: " + dir + "/elsewhere }": filepath.Join(dir, "elsewhere"),
	} {
		path := filepath.Join(dir, "farebox.yaml")
		put(t, path, text+"\nstore: "+dir+"\n")
		c, err := LoadStore(path)
		if err != nil || c.Characters == nil || c.Characters.Directory != want {
			t.Errorf("%s: %+v (%v), expected %s", text, c, err, want)
		}
	}
	c, err := Load("examples/minimal-openai.yaml")
	if err == nil && c.Characters != nil {
		t.Error("characters are on without being configured")
	}
}

func TestPublicAddress(t *testing.T) {
	for _, one := range []struct{ public, listen, cert, want string }{
		{"https://api.example.com/x/", ":8080", "", "https://api.example.com/x"},
		{"", "127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"", "api.example.com:443", "cert.pem", "https://api.example.com:443"},
		{"", ":8080", "", ""},
		{"", "0.0.0.0:8080", "", ""},
		{"", "[::]:8080", "", ""},
		{"", "unix:/run/farebox.sock", "", ""},
	} {
		c := &Config{PublicURL: one.public, Listen: one.listen, TLS: TLS{Cert: one.cert}}
		if got := c.PublicAddress(); got != one.want {
			t.Errorf("%+v: %q", one, got)
		}
	}
}

// The characters that `make run` shows are valid, and have pictures.
func TestCharactersOfTheDemonstration(t *testing.T) {
	set, err := Demo(simulation).Characters.Read()
	if err != nil || len(set.List) != 3 || len(set.Wrong) > 0 {
		t.Fatalf("%+v (%v)", set, err)
	}
	for _, c := range set.List {
		if c.Picture == nil || c.Prompt == "" {
			t.Errorf("%s lacks something", c.Slug)
		}
	}
	set, err = CharactersIn("examples/characters").Read()
	if err != nil || len(set.List) != 1 || len(set.Wrong) > 0 || set.List[0].Picture == nil {
		t.Fatalf("the example: %+v (%v)", set, err)
	}
}
