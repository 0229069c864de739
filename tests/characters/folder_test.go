package characters

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// "I saved a typo, and the character was gone in the middle of the evening."
func TestTheFolderIsReadLive(t *testing.T) {
	t.Parallel()
	h := open(t, "", nil)
	h.become("")
	h.put("ada.yaml", character("Ada", "Be exact.", ""))
	h.become("ada")
	h.put("bo.yaml", character("Bo", "Be rude.", "slug: the-bo\n"))
	h.become("ada the-bo")
	h.put("ada.yaml", character("Ada Lovelace", "Be more exact.", ""))
	rig.Await(t, "ada has another name", func() bool { return h.one("ada").Name == "Ada Lovelace" })
	h.buysWith(t, "ada", "Be more exact.")

	h.put("ada.yaml", "name: Ada\nmodelId: [\nprompt: Mumble\n")
	h.AwaitLog("its previous version stays")
	h.buysWith(t, "ada", "Be more exact.")
	if log := h.Log(); !strings.Contains(log, "ada.yaml") || strings.Contains(log, "Mumble") {
		t.Errorf("the log says %s", rig.Last(log, 600))
	}
	h.MetricIs("farebox_character_files_wrong", func(n float64) bool { return n == 1 })
	h.MetricIs("farebox_characters", func(n float64) bool { return n == 2 })
	h.put("ada.yaml", character("Ada", "Be exact again.", ""))
	rig.Await(t, "ada is mended", func() bool { return h.one("ada").Name == "Ada" })
	h.buysWith(t, "ada", "Be exact again.")

	h.said("the-bo", 4)
	if err := os.Remove(filepath.Join(h.folder, "bo.yaml")); err != nil {
		t.Fatal(err)
	}
	h.become("ada")
	h.Must(404, "POST", "/chat/completions", h.key,
		rig.Ask("sim-chat", "x", `,"svc_parameters":{"character_slug":"the-bo"}`), nil)
	h.put("bo.yml", character("Bo", "Be polite.", "slug: the-bo\n"))
	h.become("ada the-bo")
	rig.Await(t, "its reviews are there again", func() bool { return h.one("the-bo").Stats.RatingSum == 4 })
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if name := h.one("ada").Name; name != "Ada" {
		t.Errorf("after a restart ada is called %q", name)
	}
	rig.Await(t, "its reviews outlive a restart", func() bool { return h.one("the-bo").Stats.RatingSum == 4 })
}

func (h *house) buysWith(t *testing.T, slug, prompt string) {
	t.Helper()
	got, _ := h.buys(t, "/chat/completions",
		rig.Ask("sim-chat", "x", fmt.Sprintf(`,"svc_parameters":{"character_slug":%q}`, slug)))
	if !strings.Contains(string(got), `"content":"`+prompt+`"`) {
		t.Errorf("%s is asked with %s", slug, got)
	}
}

// hostile are files of an attacker who may only write the folder, with the check's
// message about each.
func hostile(h *house) map[string]string {
	huge := "name: Huge\nmodelId: m\nprompt: |\n" + strings.Repeat("  all work and no play\n", 60_000)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
	}
	files := map[string]string{
		"huge.yaml": huge, "bomb.yaml": bomb, "deep.yaml": strings.Repeat("[", 100_000),
		"twice.yaml":    character("Ada again", "x", "slug: ada\n"),
		"bell.yaml":     character(`"A\u0007da"`, "x", ""),
		"lines.yaml":    character(`"A\nda"`, "x", ""),
		"BAD SLUG.yaml": character("Ada", "x", ""),
		"latin.yaml":    "name: \xff\xfe\nprompt: x\n", "long.yaml": character(strings.Repeat("x", 101), "x", ""),
		"model.yaml": "name: x\nprompt: x\n", "prompt.yaml": "name: x\nmodelId: x\n",
		"empty.yaml": "", "list.yaml": "- name: x\n",
		"key.yaml":  character("x", "x", "promt: zircon\n"),
		"much.yaml": character("x", strings.Repeat("x", 40<<10), ""),
		"tags.yaml": character("x", "x", "tags: ["+strings.Repeat("a,", 21)+"]\n"), "page.png": "<html>",
		"link.yaml": character("x", "x", "shareUrl: javascript:alert(1)\n"), "a\x1b[2Jb.yaml": "name: x\n",
	}
	for name, text := range files {
		h.put(name, text)
	}
	elsewhere := filepath.Join(h.Dir, "elsewhere.yaml")
	if err := os.WriteFile(elsewhere, []byte(character("Stolen", "x", "")), 0o600); err != nil {
		h.T.Fatal(err)
	}
	for name, to := range map[string]string{"sym.yaml": elsewhere, "up.yaml": "../elsewhere.yaml",
		"loop.yaml": "loop.yaml", "dev.yaml": "/dev/zero", "dir.yaml": "."} {
		if err := os.Symlink(to, filepath.Join(h.folder, name)); err != nil {
			h.T.Fatal(err)
		}
		files[name] = ""
	}
	return files
}

// "One of the writers put a bomb there, and the gateway went down with it."
func TestHostileFilesAreLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	h := open(t, "", map[string]string{"ada.yaml": character("Ada", "Be exact.", "")})
	files := hostile(h)
	h.put("zoe.yaml", character("Zoe", "Be the last.", ""))
	h.become("ada zoe")
	began := time.Now()
	out, err := rig.RunIn(t, h.Dir, "check", "-c", h.Config)
	if err == nil {
		t.Errorf("the check finds nothing: %s", out)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the check takes %s", took)
	}
	for name := range files {
		shown := strings.Trim(fmt.Sprintf("%q", name), `"`)
		if !strings.Contains(out, shown) {
			t.Errorf("%s is not named by the check: %s", shown, out)
		}
		if !strings.Contains(h.Log(), strings.ReplaceAll(shown, `\`, `\\`)) {
			t.Errorf("%s is not named in the log", shown)
		}
	}
	if strings.Contains(out, "\x1b") || strings.Contains(h.Log(), "\x1b") || strings.Contains(out+h.Log(), "zircon") {
		t.Errorf("control characters or texts of files get through: %q", out)
	}
	if h.one("ada").Name != "Ada" {
		t.Errorf("ada is %+v", h.one("ada"))
	}
	h.buysWith(t, "zoe", "Be the last.")
}

// A thousand characters are read when it starts, and no list reads a file.
func TestAThousandCharacters(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("c%04d.yaml", i)] = character(fmt.Sprint("Number ", i), strings.Repeat("Be many. ", 50),
			fmt.Sprintf("tags: [t%d, all]\ndescription: %s\n", i%10, strings.Repeat("of a thousand ", 10)))
	}
	began := time.Now()
	h := open(t, "", files)
	t.Logf("ready within %s", time.Since(began))
	var took []time.Duration
	for i := range 200 {
		began := time.Now()
		query := fmt.Sprintf("?limit=100&offset=%d&search=thousand&tags=t%d", i%10, i%10)
		if list := strings.Fields(h.slugs(query)); len(list) < 90 {
			t.Fatalf("%d are listed", len(list))
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("a page of 100 takes %s, at most %s", took[len(took)/2], took[len(took)-1])
	// The folder is away: the current values are answered from memory.
	if err := os.Rename(h.folder, h.folder+".away"); err != nil {
		t.Fatal(err)
	}
	h.AwaitLog("the folder of the characters cannot be read; the current ones stay")
	if list := h.slugs("?limit=100&offset=900&sortBy=mostRecent"); len(strings.Fields(list)) != 100 {
		t.Errorf("without the folder there are %q", list)
	}
	if took[len(took)/2] > 100*time.Millisecond {
		t.Errorf("a page of 100 of 1,000 takes %s", took[len(took)/2])
	}
}
