package film_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/film"
)

// "The player showed four of the five seconds." ffprobe finds the length, the size and
// the rate that were ordered, in each track, and ffmpeg decodes every picture without a
// complaint.
func TestFilmsMatchTheirOrders(t *testing.T) {
	ffprobe, ffmpeg := servers.Tool(t, "ffprobe"), servers.Tool(t, "ffmpeg")
	for _, f := range []film.Film{
		{Length: 5 * time.Second},
		{Length: 5 * time.Second, Sound: true},
		{Length: 1234 * time.Millisecond, Width: 854, Height: 480, Rate: 30, Sound: true},
		{Length: 40 * time.Millisecond, Width: 16, Height: 16},
		{Length: time.Second, Width: 1920, Height: 1080, Rate: 60},
		{Length: 15 * time.Second, Width: 640, Height: 360, Sound: true},
	} {
		t.Run(fmt.Sprintf("%v %dx%d sound %v", f.Length, f.Width, f.Height, f.Sound), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "film.mp4")
			if err := os.WriteFile(file, film.MP4(f), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(ffprobe, "-v", "error", "-count_frames", "-show_entries",
				"format=duration:stream=codec_name,width,height,duration,nb_read_frames,avg_frame_rate", "-of", "flat",
				file).CombinedOutput()
			if err != nil {
				t.Fatalf("ffprobe: %v: %s", err, out)
			}
			said := map[string]string{}
			for line := range strings.Lines(string(out)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				said[name] = strings.Trim(value, `"`)
			}
			lengths := []string{"format.duration", "streams.stream.0.duration"}
			if f.Sound {
				lengths = append(lengths, "streams.stream.1.duration")
				if said["streams.stream.1.codec_name"] != "aac" {
					t.Errorf("its sound is %q", said["streams.stream.1.codec_name"])
				}
			}
			for _, name := range lengths {
				if got, err := strconv.ParseFloat(said[name], 64); err != nil || math.Abs(got-f.Length.Seconds()) > 0.01 {
					t.Errorf("%s is %q, ordered were %v", name, said[name], f.Length)
				}
			}
			width, height, rate := f.Width, f.Height, f.Rate
			if width == 0 {
				width, height = 320, 180
			}
			if rate == 0 {
				rate = 24
			}
			pictures := int(math.Ceil(f.Length.Seconds() * float64(rate)))
			for name, want := range map[string]int{"width": width, "height": height, "nb_read_frames": pictures} {
				if got := said["streams.stream.0."+name]; got != strconv.Itoa(want) {
					t.Errorf("%s is %q, want %d", name, got, want)
				}
			}
			if said["streams.stream.0.codec_name"] != "h264" {
				t.Errorf("its pictures are %q", said["streams.stream.0.codec_name"])
			}
			out, err = exec.Command(ffmpeg, "-v", "error", "-xerror", "-i", file, "-f", "null", "-").CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("ffmpeg complains: %s (%v)", out, err)
			}
		})
	}
}

// "All we saw was grey." Every picture of a second has one colour, and the next second
// another one.
func TestFilmsShowOneColourASecond(t *testing.T) {
	ffmpeg := servers.Tool(t, "ffmpeg")
	dir := t.TempDir()
	file, raw := filepath.Join(dir, "film.mp4"), filepath.Join(dir, "raw")
	const width, height, rate = 64, 48, 10
	if err := os.WriteFile(file, film.MP4(film.Film{Length: 3 * time.Second, Width: width, Height: height, Rate: rate}),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(ffmpeg, "-v", "error", "-i", file, "-f", "rawvideo", "-pix_fmt", "gray", raw).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	samples, err := os.ReadFile(raw)
	if err != nil || len(samples) != 3*rate*width*height {
		t.Fatalf("%d samples (%v)", len(samples), err)
	}
	second := width * height * rate
	for n := range 3 {
		for i, c := range samples[n*second : (n+1)*second] {
			if c != samples[n*second] {
				t.Fatalf("sample %d of second %d is %d, the first is %d", i, n, c, samples[n*second])
			}
		}
	}
	if samples[0] == samples[second] || samples[second] == samples[2*second] {
		t.Error("two seconds in a row look the same")
	}
}

// Ten minutes are small enough to be made for one request.
func TestLongFilmsAreSmall(t *testing.T) {
	if n := len(film.MP4(film.Film{Length: 10 * time.Minute})); n > 1<<20 {
		t.Errorf("ten minutes are %d bytes", n)
	}
}
