package sound_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/sound"
)

// "The file was half as long as what it said it was." ffprobe reads each format and finds
// the length that was ordered, and ffmpeg decodes it without a complaint.
func TestClipsAreAsLongAsTheyAreMeantToBe(t *testing.T) {
	ffprobe, ffmpeg := servers.Tool(t, "ffprobe"), servers.Tool(t, "ffmpeg")
	for _, format := range sound.Formats {
		for _, length := range []time.Duration{100 * time.Millisecond, 1500 * time.Millisecond, 7 * time.Second, 61 * time.Second} {
			t.Run(fmt.Sprint(format, " ", length), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "clip."+format)
				if err := os.WriteFile(file, sound.Bytes(format, length), 0o600); err != nil {
					t.Fatal(err)
				}
				of := []string{"-v", "error", "-show_entries", "format=format_name,duration", "-of", "csv=p=0", file}
				if format == "pcm" {
					of = append([]string{"-f", "s16le", "-ar", strconv.Itoa(sound.Rate), "-ch_layout", "mono"}, of...)
				}
				out, err := exec.Command(ffprobe, of...).CombinedOutput()
				name, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
				got, parsed := strconv.ParseFloat(seconds, 64)
				if err != nil || parsed != nil || math.Abs(got-length.Seconds()) > 0.1 {
					t.Errorf("ffprobe says %q (%v), ordered were %v", out, err, length)
				}
				want := map[string]string{"opus": "ogg", "pcm": "s16le"}[format]
				if want == "" {
					want = format
				}
				if name != want {
					t.Errorf("ffprobe calls it %q, want %s", name, want)
				}
				if format == "pcm" {
					return
				}
				out, err = exec.Command(ffmpeg, "-v", "error", "-xerror", "-i", file, "-f", "s16le", "-ac", "1", "-ar", "24000",
					filepath.Join(t.TempDir(), "samples")).CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("ffmpeg complains: %s (%v)", out, err)
				}
			})
		}
	}
}

// A clip read piece by piece equals the whole clip, and has the announced length.
func TestAClipIsTheSameHoweverItIsRead(t *testing.T) {
	for _, format := range sound.Formats {
		for _, length := range []time.Duration{0, 10 * time.Millisecond, 2345 * time.Millisecond} {
			whole := sound.Bytes(format, length)
			c := sound.New(format, length, sound.Options{})
			if c.Size() != int64(len(whole)) {
				t.Errorf("%s of %v: announced are %d bytes, there are %d", format, length, c.Size(), len(whole))
			}
			pieces, err := io.ReadAll(iotest.OneByteReader(c))
			if err != nil || !bytes.Equal(pieces, whole) {
				t.Errorf("%s of %v: %d bytes in pieces, %d whole (%v)", format, length, len(pieces), len(whole), err)
			}
			if d := c.Length() - length; d < -time.Millisecond || d > 50*time.Millisecond {
				t.Errorf("%s of %v is %v long", format, length, c.Length())
			}
		}
	}
}
