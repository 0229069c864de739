package characters

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// An operator imports, lists, reviews and removes beside the running gateway, which shows
// each at once; errors say what to do next.
func TestCommandsOfTheOperator(t *testing.T) {
	t.Parallel()
	h := open(t, "", nil)
	if err := os.Remove(h.folder); err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	source := func(name, text string) string {
		t.Helper()
		file := filepath.Join(from, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	fails := func(want string, args ...string) {
		t.Helper()
		out, err := h.TryCLI(append([]string{"character"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || secretWords.MatchString(err.Error()+string(out)) {
			t.Errorf("%q prints %s and fails with %v; want %q", args, out, err, want)
		}
	}
	fails("farebox character import makes it", "list")
	ada := source("ada.yaml", character("Ada", secret, "featured: true\n"))
	source("ada.png", picture(7))
	source("jo.json", `{"name":"Jo","modelId":"sim-chat","prompt":"Be brief."}`)
	source("wrong.yaml", "name: Wrong\nprompt: zircon\n")
	fails("1 of 3 files were not imported", "import", from)
	h.become("ada jo")
	if h.one("ada").PhotoURL == nil {
		t.Error("the picture was not removed")
	}
	fails("--replace puts this one in its place", "import", ada)
	fails("modelId", "import", filepath.Join(from, "wrong.yaml"))
	fails("expected its name to end in .yaml or .json", "import", filepath.Join(from, "ada.png"))
	fails("no such file", "import", filepath.Join(from, "none.yaml"))
	fails("the folder has no .yaml or .json file", "import", t.TempDir())
	source("ada.yaml", character("Ada Lovelace", secret, ""))
	h.CLI("character", "import", "--replace", ada)
	rig.Await(t, "ada is replaced", func() bool { return h.one("ada").Name == "Ada Lovelace" })
	var list []struct {
		Slug, Name, File string
		Picture          bool
	}
	if h.CLIJSON(&list, "character", "list"); len(list) != 2 || list[0].Slug != "ada" || !list[0].Picture ||
		list[1].File != "jo.yaml" {
		t.Errorf("the list is %+v", list)
	}
	h.put("broken.yaml", "name: [")
	out, err := rig.RunIn(t, h.Dir, "character", "list", "-c", h.Config)
	if err != nil || !strings.Contains(out, "broken.yaml") {
		t.Errorf("the list with a broken file is %s (%v)", out, err)
	}

	id := h.said("ada", 5, "--account", "a", "--message", "Exact.")
	fails("already: hide that one first", "review", "add", "ada", "--rating", "4", "--account", "a")
	fails("farebox character list shows them", "review", "add", "nobody", "--rating", "4")
	fails("expected 1 to 5", "review", "add", "ada", "--rating", "6")
	fails("rating", "review", "add", "ada")
	fails("there is no such account", "review", "add", "ada", "--rating", "4", "--account", "nobody")
	fails("write 2026-01-31", "review", "add", "ada", "--rating", "4", "--at", "yesterday")
	fails("expected one such as en", "review", "add", "ada", "--rating", "4", "--locale", "!")
	fails("farebox character review list shows their ids", "review", "hide", "none")
	rig.Await(t, "the review counts", func() bool { return h.one("ada").Stats.RatingSum == 5 })
	h.CLI("character", "review", "hide", id)
	rig.Await(t, "the review is hidden", func() bool { return h.one("ada").Stats.RatingCount == 0 })
	answer := h.Must(200, "GET", "/characters/ada/reviews", h.key, "", nil)
	if strings.Contains(string(answer), "Exact.") {
		t.Errorf("a hidden review is listed: %s", answer)
	}
	if out := h.CLI("character", "review", "list"); !strings.Contains(string(out), "hidden") {
		t.Errorf("the operator does not see it: %s", out)
	}
	h.CLI("character", "review", "hide", id, "--undo")
	rig.Await(t, "the review is shown again", func() bool { return h.one("ada").Stats.RatingSum == 5 })

	fails("farebox character list shows them", "remove", "nobody")
	fails("there is no such character", "remove", "../farebox.yaml")
	h.CLI("character", "remove", "ada", "broken.yaml")
	h.become("jo")
	if files, err := os.ReadDir(h.folder); err != nil || len(files) != 1 {
		t.Errorf("the folder has %v (%v)", files, err)
	}
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	// Without a gateway the commands are the same.
	h.CLI("character", "import", ada)
	h.said("ada", 1)
	h.Start()
	rig.Await(t, "both reviews are there", func() bool { return h.one("ada").Stats.RatingSum == 6 })
}

// The example of the repository is served unchanged, but for where its models are.
func TestTheExampleIsServed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("config/examples/characters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sim := rig.StartUpstream(t, upstream.Options{})
	h := &house{sim: sim, Gateway: rig.NewGateway(t, strings.NewReplacer("https://api.openai.com/v1", sim.URL,
		"${OPENAI_API_KEY}", "k").Replace(string(text)))}
	if err := os.CopyFS(filepath.Join(h.Dir, "characters"), os.DirFS("config/examples/characters")); err != nil {
		t.Fatal(err)
	}
	if out, err := rig.RunIn(t, h.Dir, "check", "-c", h.Config); err != nil || !strings.Contains(out, "characters: 1 in") {
		t.Errorf("the check says %s (%v)", out, err)
	}
	h.ListenAndStart()
	h.NewAccount("a", "1")
	h.key = h.Key("a")
	ada := h.one("ada")
	if ada.PhotoURL == nil || !strings.HasPrefix(*ada.PhotoURL, "https://api.example.com/api/v1/characters/ada/photo?v=") {
		t.Errorf("the example's character is %+v", ada)
	}
	h.Must(200, "POST", "/chat/completions", h.key,
		rig.Ask(ada.ModelID, "x", `,"svc_parameters":{"character_slug":"ada"}`), nil)
}

// The first run without any config has three characters with pictures and descriptions.
func TestTheDemonstrationHasCharacters(t *testing.T) {
	t.Parallel()
	addr := rig.FreeAddr(t)
	cmd := exec.Command(rig.Binary(t), "serve", "--listen", addr)
	cmd.Dir, cmd.Env = t.TempDir(), rig.Env(t)
	out := &rig.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	key := regexp.MustCompile(`SVC_INFERENCE_KEY_\w+`)
	rig.Await(t, "the banner shows a key", func() bool { return key.MatchString(out.String()) })
	h := &house{Gateway: &rig.Gateway{T: t, Origin: "http://" + addr, URL: "http://" + addr + "/api/v1"},
		key: key.FindString(out.String())}
	rig.Await(t, "it listens", func() bool {
		res, err := http.Get(h.Origin + "/readyz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == 200
	})
	list := strings.Fields(h.slugs(""))
	if len(list) != 3 {
		t.Fatalf("the characters are %q\n%s", list, out)
	}
	for _, slug := range list {
		r := h.one(slug)
		if r.PhotoURL == nil || r.Stats.RatingCount == 0 || r.Description == nil || len(r.Tags) == 0 ||
			r.CreatedAt.After(time.Now()) {
			t.Errorf("%s is %+v", slug, r)
			continue
		}
		res, body := h.photo(*r.PhotoURL)
		if res.StatusCode != 200 || !strings.HasPrefix(body, "\x89PNG") || len(body) > 4096 {
			t.Errorf("the picture of %s is %d of %d bytes", slug, res.StatusCode, len(body))
		}
		for path, more := range map[string]string{"/chat/completions": `"messages":[{"role":"user","content":"Hello"}]`,
			"/responses": `"input":"Hello"`} {
			h.Must(200, "POST", path, h.key, `{"model":"`+r.ModelID+`",`+more+
				`,"svc_parameters":{"character_slug":"`+slug+`"}}`, nil)
		}
	}
}
