package upstream

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// The prepared sound is sound, of the size that is measured.
func TestMeasuredSpeechIsSound(t *testing.T) {
	t.Parallel()
	_, url := start(t, Options{})
	f := func(body []byte, least, most int) {
		t.Helper()
		resp, err := http.Post(url+"/v1/audio/speech", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		heard, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Content-Type") != "audio/mpeg" || len(heard) < least || len(heard) > most {
			t.Fatalf("%d bytes of %s, %v", len(heard), resp.Header.Get("Content-Type"), err)
		}
		if len(heard) == 0 || heard[0] != 0xff || heard[1]&0xe0 != 0xe0 {
			t.Errorf("it begins with % x, which is not a frame", heard[:2])
		}
	}
	f(BenchSpeech, BenchSpeechBytes*9/10, BenchSpeechBytes)
	f(BenchPaced, benchPacedPieces*benchPacedPiece, benchPacedPieces*benchPacedPiece)
}
