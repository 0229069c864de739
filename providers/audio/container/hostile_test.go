package container_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"farebox/providers/audio/container"
)

// refused says that a file is, and why.
func refused(t *testing.T, file []byte, want container.Reason) {
	t.Helper()
	i, err := container.Read(file)
	var no *container.Error
	if !errors.As(err, &no) || no.Reason != want {
		t.Errorf("it is not refused for %d: %v %+v", want, err, i)
	}
}

func box(kind string, body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(all)+8))
	return append(append(b, kind...), all...)
}

func wav(rate, size uint32, tail ...byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("RIFF\xff\xff\xff\xffWAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	b = le.AppendUint32(le.AppendUint32(b, rate), rate*2)
	b = append(b, 2, 0, 16, 0)
	b = le.AppendUint32(append(b, "data"...), size)
	return append(b, tail...)
}

// Ten thousand tracks, streams or boxes are refused, and so are unknown formats.
func TestTooMuchOfAnythingIsRefused(t *testing.T) {
	t.Parallel()
	many := func(part []byte, n int) []byte { return bytes.Repeat(part, n) }
	tracks := box("moov", many(box("trak", box("tkhd", make([]byte, 84))), 10_000))
	boxes := box("moov", many(box("udta"), 20_000))
	nested := box("moov")
	for range 10_000 {
		nested = box("trak", nested)
	}
	if i, err := container.Read(box("moov", nested)); err != nil || i.Codec != "" {
		t.Errorf("boxes inside of boxes: %+v %v", i, err)
	}
	var streams []byte
	for i := range uint32(10_000) {
		page := append([]byte("OggS\x00\x02"), make([]byte, 21)...)
		binary.LittleEndian.PutUint32(page[14:], i)
		page[26] = 1
		streams = append(append(streams, page...), 19)
		streams = append(streams, "OpusHead\x01\x01\x00\x00\x80\xbb\x00\x00\x00\x00\x00"...)
	}
	entries := append([]byte{0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67, 0xFF, 0x16, 0x54, 0xAE, 0x6B, 0xFF},
		many([]byte{0xAE, 0x83, 0x83, 0x81, 0x02}, 10_000)...)
	chunks := append(wav(8000, 0)[:36], many([]byte("junk\x00\x00\x00\x00"), 20_000)...)
	for name, c := range map[string]struct {
		file []byte
		want container.Reason
	}{
		"tracks of MP4":       {tracks, container.TooMany},
		"boxes of MP4":        {boxes, container.TooMany},
		"streams of Ogg":      {streams, container.TooMany},
		"tracks of WebM":      {entries, container.TooMany},
		"chunks of WAV":       {chunks, container.TooMany},
		"pages that are none": {many([]byte("OggS\x00\x00\xff"), 3<<20), container.Broken},
		"text":                {many([]byte("This is no sound. "), 10_000), container.Unknown},
		"nothing":             {nil, container.Unknown},
		"zeros":               {make([]byte, 8<<20), container.Unknown},
		"ones":                {many([]byte{0xFF}, 8<<20), container.Unknown},
		"a page of HTML":      {[]byte("<!doctype html><html></html>"), container.Unknown},
		"MP4 without its end": {box("ftyp", []byte("isom")), container.Broken},
		"WAV without sound":   {wav(8000, 0)[:36], container.Broken},
		"WAV of another kind": {append(wav(8000, 4)[:20], append([]byte{0x61, 1}, wav(8000, 4, 1, 2, 3, 4)[22:]...)...), container.Codec},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.file, c.want) })
	}
}

// A header of one second does not buy an hour, and one of an hour is not the length of
// a second.
func TestHeadersThatLieDoNotHideTheSound(t *testing.T) {
	t.Parallel()
	minute := bytes.Repeat([]byte{0x55}, 8000*2*60)
	short := wav(8000, 16000, minute...)
	i, err := container.Read(short)
	if err != nil || i.Bound() < time.Minute || i.Length < time.Minute {
		t.Errorf("a minute after a header of a second: %+v %v", i, err)
	}
	i, err = container.Read(wav(8000, 1<<32-1, make([]byte, 16000)...))
	if err != nil || i.Length != time.Second || i.Most != time.Second {
		t.Errorf("a second after a header of days: %+v %v", i, err)
	}

	files := samplesOf(t, "a.m4a", "opus.ogg", "a.flac", "vbr.mp3", "cbr.mp3", "a.aac", "opus.webm")
	whole := func(name string, file []byte) {
		t.Helper()
		i, err := container.Read(file)
		if err != nil || i.Length < 3*time.Second || i.Bound() < 3*time.Second {
			t.Errorf("%s hides its sound: %+v %v", name, i, err)
		}
	}
	patch := func(file []byte, at int, with ...byte) { copy(file[at:], with) }

	m4a := files["a.m4a"]
	for _, kind := range []string{"mvhd", "mdhd"} { // their lengths: one tick
		patch(m4a, bytes.Index(m4a, []byte(kind))+4+16, 0, 0, 0, 1)
	}
	at := bytes.Index(m4a, []byte("stts")) + 8
	for n := int(binary.BigEndian.Uint32(m4a[at:])); n > 0; n-- { // …and of each sample
		at += 8
		patch(m4a, at, 0, 0, 0, 1)
	}
	patch(m4a, bytes.Index(m4a, []byte("elst"))+12, 0, 0, 0, 1)
	whole("MP4", m4a)

	ogg := files["opus.ogg"]
	for at := 0; ; at++ { // every page says its first sample
		next := bytes.Index(ogg[at:], []byte("OggS"))
		if next < 0 {
			break
		}
		at += next
		patch(ogg, at+6, 1, 0, 0, 0, 0, 0, 0, 0)
	}
	whole("Ogg", ogg)

	flac := files["a.flac"]
	patch(flac, 8+13, flac[8+13]&0xF0, 0, 0, 0, 1)
	whole("FLAC", flac)

	i, err = container.Read(append(bytes.Clone(files["a.aac"][:200]), files["cbr.mp3"]...))
	if err != nil || i.Bound() < 3*time.Second {
		t.Errorf("MP3 after a little AAC: %+v %v", i, err)
	}

	mp3 := files["vbr.mp3"]
	xing := max(bytes.Index(mp3, []byte("Info")), bytes.Index(mp3, []byte("Xing")))
	patch(mp3, xing+8, 0, 0, 0, 1)
	whole("MP3", mp3)

	webm := files["opus.webm"]
	patch(webm, bytes.Index(webm, []byte{0x44, 0x89, 0x88})+3, 0, 0, 0, 0, 0, 0, 0, 0)
	whole("WebM", webm)
}

// Any file that is cut off anywhere is read or refused, and never longer than the whole.
func TestFilesThatAreCutOff(t *testing.T) {
	t.Parallel()
	for name, file := range samplesOf(t, "pcm16.wav", "a.flac", "vbr.mp3", "a.aac", "fast.m4a", "vorbis.ogg", "vorbis.webm") {
		for i := range 25 {
			got, err := container.Read(file[:len(file)*i/25])
			if err == nil && got.Length > 3500*time.Millisecond {
				t.Errorf("%s cut at %d %%: %+v", name, i*4, got)
			}
		}
	}
}

// Four times the bytes are four times the work, whatever they hold: not sixteen times.
func TestWorkIsLinear(t *testing.T) {
	t.Parallel()
	frame := append([]byte{0xFF, 0xE3, 0x18, 0xC4}, make([]byte, 68)...) // MPEG 2.5 at 8,000 bits and samples a second
	page := append([]byte("OggS\x00\x00"), make([]byte, 22)...)
	page[26], page[27] = 1, 1
	page = append(page, 0xF8)
	for name, c := range map[string]struct{ head, part []byte }{
		"frames":             {nil, frame},
		"frames within tags": {[]byte("ID3\x04\x00\x00\x0B\x7f\x7f\x7f"), frame},
		"sync":               {bytes.Repeat(frame, 10), []byte{0xFF, 0xFB, 0x90}},
		"ADTS":               {bytes.Repeat([]byte{0xFF, 0xF1, 0x5C, 0x40, 0x01, 0x1F, 0xFC, 0}, 10), []byte{0xFF, 0xF1, 0x50, 0x40, 0x01}},
		"FLAC":               {append([]byte("fLaC\x80\x00\x00\x22"), make([]byte, 34)...), []byte{0xFF, 0xF8, 0x18}},
		"Ogg":                {nil, page},
		"clusters":           {[]byte{0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67, 0xFF}, []byte{0x1F, 0x43, 0xB6, 0x75, 0xFF}},
		"zeros":              {wav(8000, 1<<32-1), make([]byte, 4)},
	} {
		t.Run(name, func(t *testing.T) { linear(t, c.head, c.part) })
	}
}

// linear compares the shortest of some runs each, so that neither a slow nor a busy
// machine decides.
func linear(t *testing.T, head, part []byte) {
	const size, most, enough = 512 << 10, 9, 200 * time.Microsecond
	short := append(bytes.Clone(head), bytes.Repeat(part, size/len(part))...)
	long := append(bytes.Clone(head), bytes.Repeat(part, 4*size/len(part))...)
	took := func(file []byte) time.Duration {
		began := time.Now()
		_, _ = container.Read(file)
		return time.Since(began)
	}
	one, four := took(short), took(long)
	for range 40 {
		if four < enough || four < most*one {
			return
		}
		one, four = min(one, took(short)), min(four, took(long))
	}
	t.Errorf("four times the bytes took %s, and one %s", four, one)
}
