package container_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"farebox/providers/audio/container"
	"farebox/tests/servers"
)

// sample is a file that ffmpeg makes with some options.
type sample struct {
	name  string
	loose bool // it allows more than it is long
	film  bool
	args  []string
}

// makeAll has ffmpeg make all of them at once: a tone of 3.21 seconds, with pictures
// where they are wanted.
func makeAll(t *testing.T, samples []sample) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"-v", "error", "-y", "-f", "lavfi", "-i", "sine=frequency=300:duration=3.21:sample_rate=48000",
		"-f", "lavfi", "-i", "testsrc=size=320x240:rate=24:duration=3.21"}
	for _, s := range samples {
		args = append(args, "-map", "0:a")
		if s.film {
			args = append(args, "-map", "1:v")
		}
		args = append(append(args, s.args...), filepath.Join(dir, s.name))
	}
	if out, err := exec.Command(servers.FFmpeg(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v %s", err, out)
	}
	return dir
}

// near says that two lengths are within a tenth of a second.
func near(a, b time.Duration) bool { return (a - b).Abs() <= 100*time.Millisecond }

// Every format is as long as ffprobe says, and its bytes allow no more than that
// unless nobody can tell without decoding them.
func TestLengthsAreThoseOfFFprobe(t *testing.T) {
	t.Parallel()
	samples := []sample{
		{name: "pcm16.wav"},
		{name: "pcm8.wav", args: []string{"-c:a", "pcm_u8", "-ar", "8000"}},
		{name: "pcm24.wav", args: []string{"-c:a", "pcm_s24le", "-ac", "6"}},
		{name: "float.wav", args: []string{"-c:a", "pcm_f32le"}},
		{name: "alaw.wav", args: []string{"-c:a", "pcm_alaw", "-ar", "8000"}},
		{name: "mulaw.wav", args: []string{"-c:a", "pcm_mulaw", "-ar", "8000"}},
		{name: "ima.wav", args: []string{"-c:a", "adpcm_ima_wav"}, loose: true},
		{name: "ms.wav", args: []string{"-c:a", "adpcm_ms"}, loose: true},
		{name: "g722.wav", args: []string{"-c:a", "g722", "-ar", "16000"}},
		{name: "mp3.wav", args: []string{"-c:a", "libmp3lame"}},
		{name: "rf64.wav", args: []string{"-rf64", "always"}},
		{name: "a.flac"},
		{name: "b.flac", args: []string{"-ar", "192000", "-ac", "2"}},
		{name: "cbr.mp3", args: []string{"-b:a", "64k"}},
		{name: "vbr.mp3", args: []string{"-q:a", "4"}},
		{name: "low.mp3", args: []string{"-ar", "8000", "-b:a", "8k"}},
		{name: "layer2.mp2", args: []string{"-b:a", "128k"}},
		{name: "bare.mp3", args: []string{"-write_xing", "0", "-id3v2_version", "0"}},
		{name: "tagged.mp3", args: []string{"-metadata", "title=A tone", "-write_id3v1", "1"}, loose: true},
		{name: "a.aac"},
		{name: "low.aac", args: []string{"-ar", "8000"}},
		{name: "a.m4a"},
		{name: "fast.m4a", args: []string{"-movflags", "+faststart"}},
		{name: "pieces.mp4", args: []string{"-movflags", "frag_keyframe+empty_moov", "-frag_duration", "200000"}},
		{name: "dash.mp4", args: []string{"-movflags", "+dash+frag_every_frame"}},
		{name: "alac.m4a", args: []string{"-c:a", "alac"}, loose: true},
		{name: "flac.mp4", args: []string{"-c:a", "flac", "-strict", "-2"}, loose: true},
		{name: "opus.mp4", args: []string{"-c:a", "libopus"}, loose: true},
		{name: "mp3.mp4", args: []string{"-c:a", "libmp3lame"}},
		{name: "ac3.mp4", args: []string{"-c:a", "ac3"}},
		{name: "pcm.mov", args: []string{"-c:a", "pcm_s16le"}},
		{name: "aac.mov", args: []string{"-c:a", "aac"}},
		{name: "film.mp4", film: true, args: []string{"-c:v", "mpeg4", "-c:a", "aac"}},
		{name: "opus.ogg", args: []string{"-c:a", "libopus"}},
		{name: "dtx.ogg", args: []string{"-c:a", "libopus", "-dtx", "1", "-frame_duration", "60", "-application", "voip"}},
		{name: "vorbis.ogg", args: []string{"-c:a", "libvorbis"}},
		{name: "flac.ogg", args: []string{"-c:a", "flac"}},
		{name: "speex.ogg", args: []string{"-c:a", "libspeex", "-ar", "16000"}},
		{name: "opus.webm", args: []string{"-c:a", "libopus"}},
		{name: "vorbis.webm", args: []string{"-c:a", "libvorbis"}},
		{name: "live.webm", args: []string{"-c:a", "libopus", "-live", "1"}},
		{name: "aac.mkv", args: []string{"-c:a", "aac"}},
		{name: "mp3.mkv", args: []string{"-c:a", "libmp3lame"}},
		{name: "flac.mkv", args: []string{"-c:a", "flac"}},
		{name: "pcm.mkv", args: []string{"-c:a", "pcm_s16le"}},
		{name: "film.webm", film: true, args: []string{"-c:v", "libvpx", "-c:a", "libopus", "-deadline", "realtime"}},
		{name: "film.mov", film: true, args: []string{"-c:v", "mpeg4", "-c:a", "aac"}},
	}
	dir := makeAll(t, samples)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) { check(t, filepath.Join(dir, s.name), s.loose) })
	}
}

func check(t *testing.T, path string, loose bool) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i, err := container.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	m := servers.Probe(t, path)
	want := m.Duration
	if want == 0 {
		want = 3210 * time.Millisecond // it was made on the way, and nothing says how long it is
	}
	if i.Codec == "" || !near(i.Length, want) || i.Says > 0 && !near(i.Says, want) {
		t.Errorf("it is %v and says %v; ffprobe says %v: %+v", i.Length, i.Says, want, i)
	}
	if i.Most < i.Length || !loose && !near(i.Most, want) {
		t.Errorf("it allows %v, and is %v", i.Most, want)
	}
	for _, s := range m.Streams {
		if s.Kind != "video" {
			continue
		}
		if i.Film == nil {
			t.Fatal("it has moving pictures, which are not seen")
		}
		var n, d float64
		_, _ = fmt.Sscanf(s.Rate, "%g/%g", &n, &d)
		if i.Film.Width != s.Width || i.Film.Height != s.Height || i.Film.FPS < n/d-0.5 || i.Film.FPS > n/d+0.5 {
			t.Errorf("%+v; ffprobe says %+v", i.Film, s)
		}
	}
}
