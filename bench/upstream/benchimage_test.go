package upstream

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"testing"
)

// The prepared pictures are pictures, of the size that is measured.
func TestMeasuredPicturesArePictures(t *testing.T) {
	t.Parallel()
	_, url := start(t, Options{})
	f := func(path string, body []byte, least, most int) {
		t.Helper()
		var answer struct {
			Data []struct {
				B64 string `json:"b64_json"`
			}
		}
		askBench(t, url+"/v1"+path, body, &answer)
		if len(answer.Data) != 1 {
			t.Fatalf("%s: %d pictures", path, len(answer.Data))
		}
		raw, err := base64.StdEncoding.DecodeString(answer.Data[0].B64)
		if err != nil || len(raw) < least || len(raw) > most {
			t.Fatalf("%s: %d bytes, %v", path, len(raw), err)
		}
		if c, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || c.Width != benchSide ||
			c.Height != benchSide {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
	f("/images/generations", BenchImagePrompt, benchPicture, benchPicture)
	f("/images/edits", BenchImageEdit(), 1000, benchPicture/2)
	if n := len(BenchImageEdit()); n < 1<<20 || n > 1<<20+200 {
		t.Errorf("an edit has %d bytes", n)
	}
}
