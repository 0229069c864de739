package servers

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// FFmpeg is the program that makes sound and video of any format.
func FFmpeg(tb testing.TB) (path string) {
	tb.Helper()
	return Tool(tb, "ffmpeg")
}

// Media is what ffprobe says of a file.
type Media struct {
	Format   string        // names of the container, such as mov,mp4,m4a,3gp,3g2,mj2
	Duration time.Duration // of the longest of the container and its streams
	Streams  []Stream
}

// Stream is one of a file's streams.
type Stream struct {
	Kind          string `json:"codec_type"` // audio or video
	Codec         string `json:"codec_name"`
	Width, Height int
	Rate          string `json:"r_frame_rate"` // such as 30000/1001
	SampleRate    string `json:"sample_rate"`
	Duration      string `json:"duration"`
}

// Probe has ffprobe look at a file.
func Probe(tb testing.TB, path string) (m Media) {
	tb.Helper()
	out, err := exec.Command(Tool(tb, "ffprobe"), "-v", "error", "-of", "json", "-show_format", "-show_streams",
		path).Output()
	if err != nil {
		tb.Fatalf("ffprobe cannot read %s: %v", path, err)
	}
	var said struct {
		Format struct {
			Name     string `json:"format_name"`
			Duration string `json:"duration"`
		} `json:"format"`
		Streams []Stream `json:"streams"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		tb.Fatal(err)
	}
	m.Format, m.Streams = said.Format.Name, said.Streams
	durations := []string{said.Format.Duration}
	for _, s := range m.Streams {
		durations = append(durations, s.Duration)
	}
	for _, text := range durations {
		if seconds, err := strconv.ParseFloat(text, 64); err == nil {
			m.Duration = max(m.Duration, time.Duration(seconds*float64(time.Second)))
		}
	}
	return m
}
