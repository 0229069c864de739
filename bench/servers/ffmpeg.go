package servers

import "testing"

// FFmpeg is the program that makes sound and video of any format.
func FFmpeg(tb testing.TB) (path string) {
	tb.Helper()
	return Tool(tb, "ffmpeg")
}
