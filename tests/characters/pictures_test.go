package characters

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// picture is a PNG of one color.
func picture(shade uint8) string {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range m.Pix {
		m.Pix[i] = color.Gray{Y: shade}.Y
	}
	var b bytes.Buffer
	_ = png.Encode(&b, m)
	return b.String()
}

// photo reads a picture without a key, as a browser does.
func (h *house) photo(address string, headers ...string) (*http.Response, string) {
	h.T.Helper()
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		h.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		h.T.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.T.Fatal(err)
	}
	return res, string(body)
}

// "I put a page with a script beside a character, and browsers ran it on our domain."
func TestPicturesOfCharacters(t *testing.T) {
	t.Parallel()
	const page = "<html><script>alert(1)</script></html>"
	h := open(t, "", map[string]string{
		"ada.yaml": character("Ada", "x", ""), "ada.png": picture(10),
		"bo.yaml": character("Bo", "x", ""), "bo.png": page,
		"cy.yaml":  character("Cy", "x", ""),
		"cy.png":   `<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`,
		"dee.yaml": character("Dee", "x", ""), "dee.png": picture(1)[:20] + strings.Repeat("x", 600<<10),
		"eve.yaml": character("Eve", "x", ""), "eve.jpg": picture(99), // a PNG that is called otherwise
		"fay.yaml": character("Fay", "x", ""), "fay.svg": "<svg/>",
	})
	secret := filepath.Join(h.Dir, "elsewhere.png")
	if err := os.WriteFile(secret, []byte(picture(200)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.put("gus.yaml", character("Gus", "x", ""))
	if err := os.Symlink(secret, filepath.Join(h.folder, "gus.png")); err != nil {
		t.Fatal(err)
	}
	h.become("ada bo cy dee eve fay gus")
	for _, slug := range []string{"bo", "cy", "dee", "fay", "gus"} {
		if r := h.one(slug); r.PhotoURL != nil {
			t.Errorf("%s is shown with %s", slug, *r.PhotoURL)
		}
		if res, body := h.photo(h.URL + "/characters/" + slug + "/photo"); res.StatusCode != 404 {
			t.Errorf("%s has the picture %d %.100q", slug, res.StatusCode, body)
		}
	}
	for _, name := range []string{"bo.png", "cy.png", "dee.png", "gus.png"} {
		h.AwaitLog("the file " + name + " of the characters is not good")
	}
	for slug, want := range map[string]string{"ada": picture(10), "eve": picture(99)} {
		address := h.one(slug).PhotoURL
		if address == nil || !strings.HasPrefix(*address, h.URL+"/characters/"+slug+"/photo?v=") {
			t.Fatalf("%s has the picture %v", slug, address)
		}
		res, body := h.photo(*address)
		if head := res.Header; res.StatusCode != 200 || body != want || head.Get("Content-Type") != "image/png" ||
			head.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(head.Get("Content-Security-Policy"), "sandbox") ||
			!strings.Contains(head.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v %.40q", slug, res.StatusCode, head, body)
		}
		tag := res.Header.Get("ETag")
		if res, body := h.photo(*address, "If-None-Match", tag); res.StatusCode != 304 || body != "" ||
			res.Header.Get("ETag") != tag {
			t.Errorf("%s again: %d %q", slug, res.StatusCode, body)
		}
		if res, _ := h.photo(*address, "If-None-Match", `"other"`); res.StatusCode != 200 {
			t.Errorf("%s with another tag: %d", slug, res.StatusCode)
		}
		// Another address of it is not for good: the picture may be swapped.
		if res, _ := h.photo(h.URL + "/characters/" + slug + "/photo?v=0"); res.StatusCode != 200 ||
			strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s without its digest: %d %v", slug, res.StatusCode, res.Header)
		}
	}
	for _, path := range []string{"/characters/../elsewhere/photo", "/characters/..%2F..%2Felsewhere.png/photo",
		"/characters/ada.png/photo", "/characters/%00/photo", "/characters//photo",
		"/characters/ada/photo/..%2F..%2Felsewhere.png"} {
		res, body := h.photo(h.URL + path)
		if res.StatusCode == 200 || strings.Contains(body, "PNG") {
			t.Errorf("%s is answered %d %.50q", path, res.StatusCode, body)
		}
	}
	before := *h.one("ada").PhotoURL
	h.put("ada.png", picture(11))
	rig.Await(t, "the picture is swapped", func() bool { return *h.one("ada").PhotoURL != before })
	if _, body := h.photo(*h.one("ada").PhotoURL); body != picture(11) {
		t.Errorf("the new picture is %.40q", body)
	}
	h.put("ada.png", page)
	h.AwaitLog("its previous version stays")
	if _, body := h.photo(*h.one("ada").PhotoURL); body != picture(11) {
		t.Errorf("after a broken one there is %.40q", body)
	}
	if err := os.Remove(filepath.Join(h.folder, "ada.png")); err != nil {
		t.Fatal(err)
	}
	rig.Await(t, "the picture is gone", func() bool { return h.one("ada").PhotoURL == nil })
}
