package container_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/audio/container"
)

// sample is a file that ffmpeg makes with some options.
type sample struct {
	name  string
	loose bool // it allows more than it is long
	film  bool
	args  []string
}

var samples = []sample{
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

// made is a file of 3.21 seconds, and ffmpeg's data about it.
type made struct {
	bytes         []byte
	length        time.Duration // 0: it does not say
	width, height int           // of moving pictures
	fps           float64
}

// makeAll are all samples, by name.
func makeAll(t *testing.T) map[string]made {
	t.Helper()
	servers.FFmpeg(t) // or the test is left out
	all, err := makeOnce()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// makeOnce has ffmpeg make them, and read them again, in one run each: a tone with
// pictures where they are wanted.
var makeOnce = sync.OnceValues(func() (map[string]made, error) {
	dir, err := os.MkdirTemp("", "container")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := []string{"-v", "error", "-y", "-f", "lavfi", "-i", "sine=frequency=300:duration=3.21:sample_rate=48000",
		"-f", "lavfi", "-i", "testsrc=size=320x240:rate=24:duration=3.21"}
	read := []string{"-hide_banner"}
	for _, s := range samples {
		args = append(args, "-map", "0:a")
		if s.film {
			args = append(args, "-map", "1:v")
		}
		path := filepath.Join(dir, s.name)
		args = append(append(args, s.args...), path)
		read = append(read, "-i", path)
	}
	if out, err := exec.Command("ffmpeg", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ffmpeg: %v %s", err, out)
	}
	// Without an output ffmpeg fails, after it has described all of its inputs.
	said, _ := exec.Command("ffmpeg", read...).CombinedOutput()
	inputs := regexp.MustCompile(`(?m)^Input #\d+, `).Split(string(said), -1)[1:]
	if len(inputs) != len(samples) {
		return nil, fmt.Errorf("ffmpeg read %d of %d files: %s", len(inputs), len(samples), said)
	}
	all := map[string]made{}
	for i, s := range samples {
		m := readMade(inputs[i])
		if m.bytes, err = os.ReadFile(filepath.Join(dir, s.name)); err != nil {
			return nil, err
		}
		all[s.name] = m
	}
	return all, nil
})

var (
	lengthSaid = regexp.MustCompile(`Duration: (\d+):(\d+):([\d.]+)`)
	filmSaid   = regexp.MustCompile(`Video: .*, (\d+)x(\d+).*, ([\d.]+) fps`)
)

// readMade parses ffmpeg's description of a file.
func readMade(said string) (m made) {
	number := func(text string) float64 {
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	if d := lengthSaid.FindStringSubmatch(said); d != nil {
		m.length = time.Duration((number(d[1])*3600 + number(d[2])*60 + number(d[3])) * float64(time.Second))
	}
	if f := filmSaid.FindStringSubmatch(said); f != nil {
		m.width, m.height, m.fps = int(number(f[1])), int(number(f[2])), number(f[3])
	}
	return m
}

// samplesOf are the bytes of some samples, which are the caller's.
func samplesOf(t *testing.T, names ...string) map[string][]byte {
	t.Helper()
	all := makeAll(t)
	files := map[string][]byte{}
	for _, name := range names {
		files[name] = bytes.Clone(all[name].bytes)
	}
	return files
}

// near says that two lengths are within a tenth of a second.
func near(a, b time.Duration) bool { return (a - b).Abs() <= 100*time.Millisecond }

// The results of jobs are recognised by their beginning.
func TestLengthsAtAGlance(t *testing.T) {
	t.Parallel()
	all := makeAll(t)
	for _, name := range []string{"pcm16.wav", "pcm24.wav", "float.wav", "a.flac", "b.flac", "cbr.mp3", "vbr.mp3", "bare.mp3",
		"low.mp3", "tagged.mp3"} {
		file := all[name].bytes
		got := container.Glance(file[:min(len(file), container.GlanceBytes)], int64(len(file)))
		if !near(got, all[name].length) {
			t.Errorf("%s is %v at a glance; ffmpeg says %v", name, got, all[name].length)
		}
	}
	for _, head := range []string{"", "RIFF\x00\x00\x00\x00WAVE", "fLaC", "fLaC\x00\x00\x00\x22", "ID3\x04\x00\x00\x7f\x7f\x7f\x7f", "<html>"} {
		if got := container.Glance([]byte(head), 1000); got != 0 {
			t.Errorf("%q is %v", head, got)
		}
	}
}

// Every format has ffmpeg's length, and its bytes allow no more than that unless the
// length is unknown without decoding them.
func TestLengthsAreThoseOfFFmpeg(t *testing.T) {
	t.Parallel()
	all := makeAll(t)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) { check(t, all[s.name], s) })
	}
}

func check(t *testing.T, m made, s sample) {
	t.Helper()
	i, err := container.Read(m.bytes)
	if err != nil {
		t.Fatal(err)
	}
	want := m.length
	if want == 0 {
		want = 3210 * time.Millisecond // it was made on the way, and nothing says how long it is
	}
	if i.Codec == "" || !near(i.Length, want) || i.Says > 0 && !near(i.Says, want) {
		t.Errorf("it is %v and says %v; ffmpeg says %v: %+v", i.Length, i.Says, want, i)
	}
	if i.Most < i.Length || !s.loose && !near(i.Most, want) {
		t.Errorf("it allows %v, and is %v", i.Most, want)
	}
	switch {
	case s.film != (i.Film != nil) || s.film != (m.width > 0):
		t.Errorf("moving pictures: %+v; ffmpeg says %dx%d", i.Film, m.width, m.height)
	case s.film && (i.Film.Width != m.width || i.Film.Height != m.height || i.Film.FPS < m.fps-0.5 || i.Film.FPS > m.fps+0.5):
		t.Errorf("%+v; ffmpeg says %dx%d and %g frames a second", i.Film, m.width, m.height, m.fps)
	}
}
