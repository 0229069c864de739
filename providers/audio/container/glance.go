package container

import (
	"bytes"
	"encoding/binary"
	"time"
)

// GlanceBytes is how much of a file Glance needs.
const GlanceBytes = 64 << 10

// Glance is how long the sound of a file of so many bytes is by its beginning, which is
// trusted: it is for our own upstreams' files, never for uploads. 0: unknown.
func Glance(head []byte, size int64) time.Duration {
	if len(head) > 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WAVE" {
		return glanceWAV(head, uint64(size))
	}
	from := skipTags(head)
	if b, ok := bytes.CutPrefix(head[from:], []byte("fLaC")); ok {
		if info, ok := readStreamInfo(b[min(len(b), 4):]); ok {
			return span(info.samples, info.rate)
		}
		return 0
	}
	first, _ := findFrames(head, from, readMPEG)
	if first < 0 {
		return 0
	}
	f, _ := readMPEG(head[first:])
	if said := xing(head[first:], &f); said > 0 {
		return said
	}
	// The rest is assumed to be like the visible part.
	samples, seen := uint64(0), uint64(0)
	for b := head[first:]; ; b = b[f.size:] {
		next, ok := readMPEG(b)
		if !ok || next.kind != f.kind || next.size > len(b) {
			break
		}
		f = next
		samples, seen = samples+uint64(f.samples), seen+uint64(f.size)
	}
	return span(mul(samples, uint64(size)-uint64(first))/seen, uint64(f.rate))
}

func glanceWAV(head []byte, size uint64) time.Duration {
	var w *wave
	for at := uint64(12); at+8 <= uint64(len(head)); {
		n := uint64(binary.LittleEndian.Uint32(head[at+4:]))
		body := head[at+8:]
		switch string(head[at : at+4]) {
		case "fmt ":
			w, _ = readFmt(body[:min(n, uint64(len(body)))])
		case "data":
			if w == nil || w.bytes == 0 {
				return 0
			}
			return span(min(n, max(size, at+8)-at-8), w.bytes)
		}
		at += 8 + n + n&1
	}
	return 0
}
