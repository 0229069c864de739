package image

import (
	"os"
	"path/filepath"
	"testing"

	"farebox/tests/rig"
)

// The openai package of npm makes and edits pictures as it does with OpenAI, and pays their price.
func TestLongOpenAINodeImages(t *testing.T) {
	dir := filepath.Join("bench", "clients", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai")); err != nil {
		t.Fatalf("the openai package is not installed in %s: run make setup-long", dir)
	}
	s := startStudio(t, "10")
	picture := filepath.Join(t.TempDir(), "picture.png")
	if err := os.WriteFile(picture, painting(512, 256), 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.RunSuite(t, []string{"FAREBOX_KEY=" + s.key, "FAREBOX_PICTURE=" + picture}, dir, "node", "--test",
		"--test-reporter=spec", "images.suite.mjs")
	rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	// Two generated, one edited, and one made of two.
	if spent, want := s.spent(), rig.Money(2*10_000_000+340_000_000+340_000_000+9_200_000); spent != want {
		t.Errorf("charged %s, want %s", spent, want)
	}
}
