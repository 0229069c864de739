package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"net/http"
	"testing"
)

// The prepared pictures are pictures, of the size that is measured.
func TestMeasuredPicturesArePictures(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f := func(path string, body []byte, least, most int) {
		t.Helper()
		res, err := http.Post(url+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var answer struct {
			Data []struct {
				B64 string `json:"b64_json"`
			} `json:"data"`
		}
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(answer.Data) != 1 {
			t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
		}
		raw, err := base64.StdEncoding.DecodeString(answer.Data[0].B64)
		if err != nil || len(raw) < least || len(raw) > most {
			t.Fatalf("%s: %d bytes, %v", path, len(raw), err)
		}
		if c, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || c.Width != benchSide || c.Height != benchSide {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
	f("/images/generations", BenchImagePrompt, benchPicture, benchPicture)
	f("/images/edits", BenchImageEdit(), 1000, benchPicture/2)
	if n := len(BenchImageEdit()); n < 1<<20 || n > 1<<20+200 {
		t.Errorf("an edit has %d bytes", n)
	}
}
