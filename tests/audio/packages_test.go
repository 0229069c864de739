package audio

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"farebox/bench/upstream/sound"
	"farebox/tests/rig"
)

// OpenAI's packages have speech made as with OpenAI, whole and streamed to a file, and
// ffprobe finds that each file has the format of its name.
func TestSpeechOfOpenAIsPackages(t *testing.T) {
	t.Parallel()
	s := startSpeech(t, "10")
	dir := t.TempDir()
	environment := []string{"FAREBOX_KEY=" + s.key, "FAREBOX_DIR=" + dir}
	t.Run("Go", func(t *testing.T) { speechOfGo(t, s, dir) })
	runSuites(t, s.Gateway, environment, "speech")
	for _, file := range []string{"go.wav", "go.aac", "node.flac", "node.mp3", "python.wav", "python.opus"} {
		format := filepath.Ext(file)[1:]
		name, length := probeFile(t, format, filepath.Join(dir, file))
		if want := map[string]string{"opus": "ogg"}[format]; want != name && format != name || !near(length, 40) {
			t.Errorf("%s is %s of %v", file, name, length)
		}
	}
	if a := s.Settled()["a"]; a.Spent != rig.Money(6*40*100_000) {
		t.Errorf("six times forty characters cost %s", a.Spent)
	}
}

// "It works with OpenAI." Sound is written down in each form that OpenAI's packages know.
func TestTranscriptionsOfOpenAIsPackages(t *testing.T) {
	t.Parallel()
	e := startEar(t, "10")
	file := filepath.Join(t.TempDir(), "speech.wav")
	if err := os.WriteFile(file, sound.Bytes("wav", 5*time.Second), 0o600); err != nil {
		t.Fatal(err)
	}
	runSuites(t, e.Gateway, []string{"FAREBOX_KEY=" + e.key, "FAREBOX_SOUND=" + file}, "transcriptions")
	e.costs("twelve transcriptions of five seconds", 0, 2*6*5)
}

// runSuites has the packages of Node and Python tested.
func runSuites(t *testing.T, g *rig.Gateway, environment []string, suite string) {
	t.Helper()
	t.Run("Node", func(t *testing.T) {
		out := g.RunSuite(t, environment, installed(t, "node", "node_modules/openai"), "node", "--test", "--test-reporter=spec",
			suite+".suite.mjs")
		rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	})
	t.Run("Python", func(t *testing.T) {
		folder := installed(t, "python", ".venv")
		program, err := filepath.Abs(filepath.Join(folder, ".venv", "bin", "python"))
		if err != nil {
			t.Fatal(err)
		}
		out := g.RunSuite(t, environment, folder, program, "-m", "unittest", "-v", suite+"_suite")
		rig.Counted(t, out, `(?m)^Ran (\d+) tests`)
	})
}

// installed is the folder of a language's clients.
func installed(t *testing.T, language, what string) string {
	t.Helper()
	dir := filepath.Join("bench", "clients", language)
	if _, err := os.Stat(filepath.Join(dir, what)); err != nil {
		t.Fatalf("%s is not installed in %s: run make setup", what, dir)
	}
	return dir
}

func speechOfGo(t *testing.T, s *speechRig, dir string) {
	client := openai.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey(s.key), option.WithMaxRetries(0),
		option.WithRequestTimeout(rig.CallLimit))
	for _, format := range []openai.AudioSpeechNewParamsResponseFormat{"wav", "aac"} {
		res, err := client.Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
			Model: "tts-1", Input: "Forty characters are two seconds of soun", ResponseFormat: format, Speed: openai.Float(1),
			Instructions: openai.String("calmly"),
			Voice: openai.AudioSpeechNewParamsVoiceUnion{
				OfAudioSpeechNewsVoiceID: &openai.AudioSpeechNewParamsVoiceID{ID: "alloy"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("go.%s", format)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.Copy(file, res.Body); err != nil || res.Header.Get("Content-Type") != "audio/"+string(format) {
			t.Errorf("%v, a %s of type %s", err, format, res.Header.Get("Content-Type"))
		}
		_ = res.Body.Close()
		_ = file.Close()
	}
}
