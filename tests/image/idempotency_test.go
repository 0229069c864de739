package image

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"testing"

	"farebox/tests/rig"
)

// Pictures, as JSON, as a file and from a form, whose boundary is new each time.
func TestKeyedPicturesAreMadeOnce(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	picture := base64.StdEncoding.EncodeToString(painting(512, 256))
	for name, f := range map[string]struct{ path, body string }{
		"native": {"/image/generate", `{"model":"pixels","prompt":"x","variants":2,"format":"png"}`},
		"binary": {"/image/generate", `{"model":"pixels","prompt":"x","return_binary":true,"format":"png"}`},
		"simple": {"/images/generations", `{"prompt":"x","size":"256x256"}`},
		"edit":   {"/image/edit", `{"prompt":"x","image":"` + picture + `"}`},
	} {
		before, asked := s.spent(), s.requests()
		status, first, answer := s.WithKey(f.path, s.key, name, f.body)
		if status != 200 {
			t.Fatalf("%s: %d %.200s", name, status, answer)
		}
		charged, made := s.spent(), s.requests()
		status, again, text := s.WithKey(f.path, s.key, name, f.body)
		if status != 200 || text != answer || again.Get("Idempotent-Replayed") != "true" ||
			again.Get("Content-Type") != first.Get("Content-Type") ||
			again.Get("X-Svc-Is-Blurred") != first.Get("X-Svc-Is-Blurred") {
			t.Errorf("%s: again %d %v, %d bytes of %d", name, status, again, len(text), len(answer))
		}
		if s.spent() != charged || s.requests() != made || charged == before || made == asked {
			t.Errorf("%s: charged %s, then %s; %d requests, then %d", name, charged-before, s.spent()-charged,
				made-asked, s.requests()-made)
		}
	}
	form := func(prompt string) (status int, replayed string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("prompt", prompt)
		file, _ := w.CreateFormFile("image", fmt.Sprint("picture", rand.Int(), ".png"))
		_, _ = file.Write(painting(512, 256))
		_ = w.Close()
		req, _ := http.NewRequest("POST", s.Gateway.URL+"/image/edit", &b)
		req.Header = http.Header{"Content-Type": {w.FormDataContentType()}, "Authorization": {"Bearer " + s.key},
			"Idempotency-Key": {"form"}}
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("Idempotent-Replayed")
	}
	for i, want := range []string{"", "true"} {
		if status, replayed := form("x"); status != 200 || replayed != want {
			t.Errorf("form %d: %d, replayed %q", i, status, replayed)
		}
	}
	if status, _ := form("y"); status != 400 {
		t.Errorf("another form under the key: %d", status)
	}
	// A client that left gets its pictures with the retry.
	before := s.spent()
	late := `{"model":"pixels","prompt":"LATE","format":"png"}`
	s.leave("/image/generate", late, "Idempotency-Key", "late")
	if status, header, answer := s.WithKey("/image/generate", s.key, "late", late); status != 200 ||
		header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the retry: %d %v %.200s", status, header, answer)
	}
	if got := s.spent() - before; got != 10_000_000 {
		t.Errorf("one picture cost %s", got)
	}
}
