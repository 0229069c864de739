package config

import (
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// folder is a watched folder of characters, with its messages.
type folder struct {
	*CharacterFolder
	t    *testing.T
	dir  string
	mu   sync.Mutex
	said []string
}

func openFolder(t *testing.T, change ...func(*Characters)) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	c := CharactersIn(f.dir)
	for _, change := range change {
		change(c)
	}
	f.CharacterFolder = OpenCharacters(c, func(msg string, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			msg += ": " + err.Error()
		}
		f.said = append(f.said, msg)
	})
	return f
}

func (f *folder) put(name, text string) {
	f.t.Helper()
	put(f.t, filepath.Join(f.dir, name), text)
}

// is waits until the folder has these slugs.
func (f *folder) is(slugs string) {
	f.t.Helper()
	var got []string
	for end := time.Now().Add(lookEvery / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got = nil
		for _, c := range f.Set().List {
			got = append(got, c.Slug+"="+c.Name)
		}
		if strings.Join(got, " ") == slugs {
			return
		}
	}
	f.t.Fatalf("the characters are %q, expected %q; it said %q", got, slugs, f.heard())
}

func (f *folder) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}

func (f *folder) says(part string) {
	f.t.Helper()
	for end := time.Now().Add(lookEvery / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(f.heard(), part) {
			return
		}
	}
	f.t.Fatalf("nothing was said about %q: %s", part, f.heard())
}

func named(name string) string {
	return "name: " + name + "\nmodelId: m\nprompt: " + secretWords + "\n"
}

// "I saved a typo, and all other characters were gone."
func TestFolderOfCharactersIsReadLive(t *testing.T) {
	t.Parallel()
	f := openFolder(t)
	f.Watch()
	t.Cleanup(f.Close)
	f.put("ada.yaml", named("Ada"))
	f.is("ada=Ada")
	f.put("bo.yaml", named("Bo"))
	f.is("ada=Ada bo=Bo")
	f.put("bo.yaml", named("Bob"))
	f.is("ada=Ada bo=Bob")
	f.put("bo.yaml", named("Bobby")+"adult: perhaps\n")
	f.says("bo.yaml of the characters is not good; its previous version stays: bo.yaml has 1 mistake\n\nbo.yaml:4:8: adult")
	f.is("ada=Ada bo=Bob")
	f.put("eve.yaml", "name: Eve\n")
	f.says("eve.yaml of the characters is not good; it is left out")
	f.put("ada.yaml", named("Adele"))
	f.is("ada=Adele bo=Bob")
	f.put("bo.yaml", named("Bobby"))
	f.is("ada=Adele bo=Bobby")
	if err := os.Remove(filepath.Join(f.dir, "ada.yaml")); err != nil {
		t.Fatal(err)
	}
	f.is("bo=Bobby")
	f.put("x.tmp", named("X"))
	f.put(".hidden.yaml", named("Hidden"))
	if err := os.Rename(filepath.Join(f.dir, "x.tmp"), filepath.Join(f.dir, "x.yml")); err != nil {
		t.Fatal(err)
	}
	f.is("bo=Bobby x=X")
	if strings.Count(f.heard(), "the file eve.yaml") != 1 || strings.Contains(f.heard(), secretWords) {
		t.Errorf("it said\n%s", f.heard())
	}
	before := f.Set()
	f.Look()
	if f.Set() != before {
		t.Error("nothing has changed, and all is new")
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	f.says("cannot be read; the current ones stay")
	f.is("bo=Bobby x=X")
}

func drawn(t *testing.T, dir, name string, side int) {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	img := image.NewGray(image.Rect(0, 0, side, side))
	if strings.HasSuffix(name, ".png") {
		err = png.Encode(out, img)
	} else {
		err = jpeg.Encode(out, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// "Somebody put a page with a script beside a character, and we served it."
func TestPicturesAreWhatTheirContentIs(t *testing.T) {
	t.Parallel()
	f := openFolder(t, func(c *Characters) { c.MaxPicture, c.Memory = 2048, 1<<20 })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.put(name+".yaml", named(name))
	}
	drawn(t, f.dir, "a.png", 8)
	drawn(t, f.dir, "b.jpeg", 8)
	f.put("c.png", "<html><script>alert(1)</script></html>")
	f.put("d.webp", "RIFF\x00\x00\x00\x00WEBPVP8 ")
	drawn(t, f.dir, "e.jpg", 8)
	drawn(t, f.dir, "e.png", 8)
	f.Look()
	got := ""
	for _, c := range f.Set().List {
		if c.Picture != nil {
			got += c.Slug + " " + c.Picture.Type + c.Picture.End() + "\n"
		}
	}
	if got != "a image/png.png\nb image/jpeg.jpg\nd image/webp.webp\ne image/jpeg.jpg\n" {
		t.Errorf("the pictures are\n%s", got)
	}
	if wrong := f.Set().Wrong; len(wrong) != 2 || !strings.Contains(fmt.Sprint(wrong["c.png"]), "not PNG, JPEG or WebP") ||
		!strings.Contains(fmt.Sprint(wrong["e.png"]), "has the picture e.jpg already") {
		t.Errorf("wrong are %v", wrong)
	}
	digest := f.Set().Find("a").Picture.Digest
	put(t, filepath.Join(f.dir, "a.png"), strings.Repeat("\x89PNG\r\n\x1a\n", 300))
	f.Look()
	if p := f.Set().Find("a").Picture; p == nil || p.Digest != digest ||
		!strings.Contains(fmt.Sprint(f.Set().Wrong["a.png"]), "at most 2KB") {
		t.Errorf("a picture that grew too large: %v %v", p, f.Set().Wrong)
	}
}

func TestPicturesTogetherHaveABound(t *testing.T) {
	t.Parallel()
	f := openFolder(t, func(c *Characters) { c.Memory = 300 })
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		f.put(name+".yaml", named(name))
		drawn(t, f.dir, name+".png", 8)
	}
	f.Look()
	total, n := 0, 0
	for _, c := range f.Set().List {
		if c.Picture != nil {
			total, n = total+len(c.Picture.Data), n+1
		}
	}
	if total > 300 || n == 0 || n == 8 || len(f.Set().Wrong) != 8-n {
		t.Errorf("%d pictures of %d bytes, %v", n, total, f.Set().Wrong)
	}
}

// "A link in the folder showed what lies elsewhere on the machine."
func TestNothingOutsideOfTheFolderIsRead(t *testing.T) {
	t.Parallel()
	f := openFolder(t)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "eve.yaml"), named("Eve"))
	drawn(t, outside, "eve.png", 8)
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "eve.yaml"), "one.yaml")
	link("../"+filepath.Base(outside)+"/eve.yaml", "two.yaml")
	link(outside, "elsewhere")
	link("elsewhere/eve.yaml", "three.yaml")
	link("loop.yaml", "loop.yaml")
	link(filepath.Join(outside, "eve.png"), "ada.png")
	if err := os.Mkdir(filepath.Join(f.dir, "dir.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	pipe(t, filepath.Join(f.dir, "pipe.yaml"))
	f.put("ada.yaml", named("Ada"))
	// The links of a Kubernetes config map stay within the folder.
	if err := os.Mkdir(filepath.Join(f.dir, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(f.dir, "..2026", "bo.yaml"), named("Bo"))
	link("..2026", "..data")
	link("..data/bo.yaml", "bo.yaml")
	f.put("ada.v2.yaml", named("A"))
	f.put("odd\nname.yaml", named("Odd"))
	f.put("bo2.yaml", "slug: bo\n"+named("Second"))
	f.Look()
	f.is("ada=Ada bo=Bo")
	if f.Set().Find("ada").Picture != nil {
		t.Error("a picture from outside is shown")
	}
	for name, want := range map[string]string{"one.yaml": "", "two.yaml": "", "three.yaml": "", "loop.yaml": "",
		"ada.png": "", "dir.yaml": "not a regular file", "pipe.yaml": "not a regular file", "ada.v2.yaml": "name of the file",
		"odd\nname.yaml": `"odd\nname.yaml"`, "bo2.yaml": "the character bo is in bo.yaml already"} {
		if err := f.Set().Wrong[name]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if strings.Contains(strings.ReplaceAll(f.heard(), "\n\n", ""), "odd\nname") {
		t.Errorf("a name of a file breaks lines: %q", f.heard())
	}
}

func TestFolderHasABound(t *testing.T) {
	t.Parallel()
	f := openFolder(t)
	f.put("ada.yaml", named("Ada"))
	f.Look()
	f.is("ada=Ada")
	for i := range maxFolder {
		put(t, filepath.Join(f.dir, fmt.Sprintf("x%d", i)), "")
	}
	f.Look()
	f.says("more than 8000 entries")
	f.is("ada=Ada")
}

// "I imported it while the gateway looked, and it had half of the file."
func TestImportPutsWholeFilesThere(t *testing.T) {
	t.Parallel()
	f, from := openFolder(t), t.TempDir()
	c := f.Bounds()
	source := func(name, text string) string {
		put(t, filepath.Join(from, name), text)
		return filepath.Join(from, name)
	}
	refused := func(file, want string) {
		t.Helper()
		if _, err := c.Import(file, false); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), secretWords) {
			t.Errorf("%s: %v, expected %q", file, err, want)
		}
	}
	file := source("first.yaml", "slug: ada\n"+named("Ada"))
	drawn(t, from, "first.png", 8)
	old := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	if one, err := c.Import(file, false); err != nil || one.File != "ada.yaml" {
		t.Fatal(one, err)
	}
	f.Look()
	f.is("ada=Ada")
	if ada := f.Set().Find("ada"); ada.Picture == nil || !ada.UpdatedAt.Equal(old) {
		t.Errorf("%+v", ada)
	}
	refused(file, "is there already, in ada.yaml; --replace")
	drawn(t, from, "json.png", 8)
	const told = `{"slug":"jo","name":"J\u00f6 \ud83d\ude00","modelId":"m",` +
		`"prompt":"a: \"b\"\n\t- #c\u2028<d>","tags":["x y"]}`
	one, err := c.Import(source("json.json", told), false)
	if err != nil || one.Name != "Jö 😀" || one.Picture == nil ||
		one.Prompt.Reveal() != "a: \"b\"\n\t- #c\u2028<d>" || one.File != "jo.yaml" {
		t.Fatalf("%+v %v", one, err)
	}
	f.Look()
	f.is("ada=Ada jo=Jö 😀")
	if f.Set().Find("jo").Prompt.Reveal() != "a: \"b\"\n\t- #c\u2028<d>" {
		t.Errorf("the folder has another prompt: %q", f.Set().Find("jo").Prompt.Reveal())
	}
	if _, err := c.Remove("jo"); err != nil {
		t.Error(err)
	}
	refused(source("half.json", `{"name":"H","prompt":"`+secretWords), "it is not a JSON object")
	refused(source("list.json", `["`+secretWords+`"]`), "it is not a JSON object")
	refused(source("two.json", told+`{}`), "the file continues after the JSON object")
	refused(source("key.json", `{"name":"K","modelId":"m","promt":"`+secretWords+`"}`), "characters do not have this key")
	refused(source("wrong.yaml", named("W")+"adult: x\n"), "wrong.yaml:4:8: adult")
	refused(source("note.txt", named("P")), "expected its name to end in .yaml")
	put(t, filepath.Join(from, "scripted.png"), "<script>")
	refused(source("scripted.yaml", named("S")), "not PNG, JPEG or WebP")
	second := source("second.yaml", "slug: ada\n"+named("Adele"))
	drawn(t, from, "second.jpg", 8)
	if _, err := c.Import(second, true); err != nil {
		t.Fatal(err)
	}
	f.Look()
	f.is("ada=Adele")
	if list, err := os.ReadDir(f.dir); err != nil || fmt.Sprint(list) != "[- ada.jpg - ada.yaml]" {
		t.Errorf("the folder has %v (%v)", list, err)
	}
	if removed, err := c.Remove("ada"); err != nil || fmt.Sprint(removed) != "[ada.yaml ada.jpg]" {
		t.Errorf("removed %v (%v)", removed, err)
	}
	f.Look()
	f.is("")
	for _, name := range []string{"ada", "../x", ".", ""} {
		if _, err := c.Remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	f.put("broken.yaml", "x")
	if _, err := c.Remove("broken.yaml"); err != nil {
		t.Error(err)
	}
}
