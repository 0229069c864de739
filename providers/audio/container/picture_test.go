package container_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"farebox/bench/servers"
	"farebox/providers/audio/container"
)

// codedFilms are films of 90 by 50, which no codec has without cutting something off.
var codedFilms = map[string][]string{
	"avc.mp4":        {"-c:v", "libx264", "-preset", "ultrafast"},
	"high.mov":       {"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p10le"},
	"interlaced.mp4": {"-c:v", "libx264", "-preset", "ultrafast", "-flags", "+ildct+ilme", "-vf", "scale=90:52,setsar=1"},
	"avc.mkv":        {"-c:v", "libx264", "-preset", "ultrafast"},
	"pieces.mp4":     {"-c:v", "libx264", "-preset", "ultrafast", "-movflags", "frag_keyframe+empty_moov"},
	"hevc.mp4":       {"-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none"},
	"hevc.mkv":       {"-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none"},
	"av1.mp4":        {"-c:v", "libaom-av1", "-cpu-used", "8"},
	"av1.webm":       {"-c:v", "libaom-av1", "-cpu-used", "8"},
	"vp8.webm":       {"-c:v", "libvpx", "-deadline", "realtime"},
	"vp9.webm":       {"-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"},
}

// "The header says 16 lines, and the film has a thousand, which we were billed for." A container's
// size of pictures only makes them larger; the pictures themselves have the true size.
func TestPicturesSayHowLargeTheyAre(t *testing.T) {
	t.Parallel()
	servers.FFmpeg(t)
	dir := t.TempDir()
	args := []string{"-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=size=90x50:rate=24:duration=0.25"}
	for name, how := range codedFilms {
		args = append(append(args, how...), filepath.Join(dir, name))
	}
	if out, err := exec.Command("ffmpeg", args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v %s", err, out)
	}
	for name := range codedFilms {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			height := 50
			if name == "interlaced.mp4" {
				height = 52
			}
			for _, file := range [][]byte{file, understated(file)} {
				i, err := container.Read(file)
				if err != nil || i.Film == nil || !i.Film.Coded || i.Film.Width != 90 || i.Film.Height != height {
					t.Errorf("%+v: %v", i.Film, err)
				}
			}
		})
	}
}

// understated is a film whose container says 2 by 2.
func understated(file []byte) []byte {
	file = bytes.Clone(file)
	be := binary.BigEndian
	if at := bytes.Index(file, []byte("tkhd")); at > 0 {
		be.PutUint32(file[at+4+76:], 2<<16)
		be.PutUint32(file[at+4+80:], 2<<16)
	}
	for _, kind := range []string{"avc1", "hev1", "hvc1", "av01"} {
		for at := 0; ; {
			n := bytes.Index(file[at:], []byte(kind))
			if n < 0 {
				break
			}
			if at += n + 4; be.Uint16(file[at+24:]) == 90 {
				be.PutUint16(file[at+24:], 2)
				be.PutUint16(file[at+26:], 2)
			}
		}
	}
	file = bytes.Replace(file, []byte{0xB0, 0x81, 90}, []byte{0xB0, 0x81, 2}, 1)
	return bytes.Replace(file, []byte{0xBA, 0x81, 50}, []byte{0xBA, 0x81, 2}, 1)
}

// Films whose pictures cannot be read, or that lack a description, have at least their
// stated size, and are not marked as coded.
func TestPicturesThatSayNothing(t *testing.T) {
	t.Parallel()
	film := samplesOf(t, "film.mp4")["film.mp4"]
	i, err := container.Read(film)
	if err != nil || i.Film == nil || i.Film.Coded || i.Film.Height != 240 {
		t.Errorf("%+v: %v", i.Film, err)
	}
}
