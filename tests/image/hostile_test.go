package image

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"io"
	"math/bits"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// pngChunk is a part of a PNG.
func pngChunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// pngOf is a PNG that claims a size, whatever its pixels are.
func pngOf(width, height uint32, parts ...[]byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, width)
	head = binary.BigEndian.AppendUint32(head, height)
	b := append([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", append(head, 8, 2, 0, 0, 0))...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return append(b, pngChunk("IEND", nil)...)
}

// Hostile pictures are answered with the documented errors, in little time and
// memory, in whichever form they come.
func TestHostilePictures(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "10")
	good := painting(512, 512)
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 600, 400)), nil); err != nil {
		t.Fatal(err)
	}
	pixels := pngChunk("IDAT", []byte("no zlib stream"))
	for name, c := range map[string]struct {
		file   []byte
		status int
		code   string
	}{
		"a page": {[]byte("<html><script>alert(1)</script></html>"), 400, "CORRUPTED_IMAGE"},
		"a drawing": {[]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="9999" height="9999"/>`),
			400, "CORRUPTED_IMAGE"},
		"an archive":              {[]byte("PK\x03\x04" + strings.Repeat("\x00", 1000)), 400, "CORRUPTED_IMAGE"},
		"GIF":                     {[]byte("GIF89a\x00\x02\x00\x02\x00\x00\x00;"), 400, "CORRUPTED_IMAGE"},
		"magic alone":             {good[:8], 400, "CORRUPTED_IMAGE"},
		"cut in the header":       {good[:20], 400, "CORRUPTED_IMAGE"},
		"cut in the pixels":       {good[:len(good)-20], 400, "CORRUPTED_IMAGE"},
		"photo cut":               {photo.Bytes()[:photo.Len()/2], 400, "CORRUPTED_IMAGE"},
		"no pixels":               {pngOf(512, 512), 400, "CORRUPTED_IMAGE"},
		"no size":                 {pngOf(0, 0, pixels), 400, "CORRUPTED_IMAGE"},
		"largest size there is":   {pngOf(1<<31-1, 1<<31-1, pixels), 422, "IMAGE_TOO_LARGE"},
		"size beyond":             {pngOf(1<<32-1, 1<<32-1, pixels), 400, "CORRUPTED_IMAGE"},
		"a line":                  {pngOf(33_177_600, 1, pixels), 422, "IMAGE_TOO_LARGE"},
		"one pixel too many":      {pngOf(5760, 5761, pixels), 422, "IMAGE_TOO_LARGE"},
		"one row too few":         {painting(256, 255), 400, "IMAGE_TOO_SMALL"},
		"a chunk longer than all": {append(good[:33:33], "\x7f\xff\xff\xffIDAT"...), 400, "CORRUPTED_IMAGE"},
		"an animation": {pngOf(512, 512, pngChunk("acTL", []byte{0, 0, 0, 9, 0, 0, 0, 0}), pixels), 400,
			"CORRUPTED_IMAGE"},
		"two headers":       {pngOf(512, 512, good[8:33], pixels), 400, "CORRUPTED_IMAGE"},
		"24 MB of metadata": {pngOf(512, 512, pngChunk("tEXt", make([]byte, 24<<20)), pixels), 200, ""},
		"25 MB": {pngOf(512, 512, pngChunk("tEXt", make([]byte, 25<<20)), pixels), 422,
			"IMAGE_TOO_LARGE"},
		"200,000 chunks": {pngOf(512, 512, bytes.Repeat(pngChunk("tEXt", nil), 200_000), pixels), 400,
			"CORRUPTED_IMAGE"},
		"a photo with 5,000 scans": {scans(photo.Bytes(), 5000), 400, "CORRUPTED_IMAGE"},
		"a picture and an archive": {append(bytes.Clone(good), "PK\x03\x04<script>"...), 200, ""},
		"largest that is taken":    {pngOf(5760, 5760, pixels), 200, ""},
	} {
		if len(c.file) > 20<<20 && rig.RaceDetector() {
			continue // seconds each, and no race more
		}
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			for _, as := range []string{"JSON", "form"} {
				var status int
				var answer []byte
				if as == "JSON" {
					if base64.StdEncoding.EncodedLen(len(c.file)) > 34<<20 {
						continue // more than a JSON body may have: 413
					}
					status, _, answer = s.Post("/image/edit", s.key,
						`{"prompt":"x","image":"`+base64.StdEncoding.EncodeToString(c.file)+`"}`)
				} else {
					status, _, answer = newForm().field("prompt", "x").file("image", c.file).send(t, s.Gateway,
						"/image/edit", s.key)
				}
				if status != c.status {
					t.Fatalf("as %s: answered %d %.300s, want %d", as, status, answer, c.status)
				}
				var e struct{ Code string }
				if status != 200 && (json.Unmarshal(answer, &e) != nil || e.Code != c.code) {
					t.Errorf("as %s: %.300s, want %s", as, answer, c.code)
				}
				if q := s.requests(); status == 200 && bytes.Contains(s.last().Files[0], []byte("<script>")) {
					t.Errorf("as %s: bytes after the picture reached the upstream in request %d", as, q)
				}
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	// The largest body has 34 MB, and two of its copies are the most that the
	// runtime has had in hand at a time.
	if peak := peakMemory(t, s.PID()); peak > 400<<20 {
		t.Errorf("the process took %d MB at its peak", peak>>20)
	} else {
		t.Logf("peak of the process: %d MB", peak>>20)
	}
}

// A picture of 24 MB is in memory once, on its way in or out, in either form: as base64
// text a third larger, and never as both.
func TestLargePicturesAreInMemoryOnce(t *testing.T) {
	if rig.RaceDetector() {
		t.Skip("the race detector's memory shows nothing")
	}
	picture := largePicture()
	text := base64.StdEncoding.EncodeToString(picture)
	for _, c := range []struct {
		name, path, body string
		form             *form
		size             int // of its form in memory
	}{
		{"a picture comes in JSON", "/image/edit", `{"prompt":"x","image":"` + text + `"}`, nil, len(text)},
		{"a picture comes in a form", "/image/edit", "", newForm().field("prompt", "x").file("image", picture),
			len(picture)},
		{"a picture goes out in JSON", "/image/generate", `{"model":"pixels","prompt":"LARGE","format":"png"}`, nil,
			len(text)},
		{"a picture goes out as a file", "/image/generate",
			`{"model":"pixels","prompt":"LARGE","format":"png","return_binary":true}`, nil, len(text)},
		{"a picture goes out in OpenAI's form", "/images/generations", `{"prompt":"LARGE"}`, nil, len(text)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startStudio(t, "10")
			// The fixed cost of the first request.
			if status, _, answer := s.Post("/image/generate", s.key,
				`{"model":"pixels","prompt":"x","format":"png"}`); status != 200 {
				t.Fatalf("%d %.300s", status, answer)
			}
			before := peakMemory(t, s.PID())
			var status int
			var answer []byte
			if c.form != nil {
				status, _, answer = c.form.send(t, s.Gateway, c.path, s.key)
			} else {
				status, _, answer = s.Post(c.path, s.key, c.body)
			}
			if status != 200 {
				t.Fatalf("%d %.300s", status, answer)
			}
			grown := peakMemory(t, s.PID()) - before
			t.Logf("%d MB for %d MB", grown>>20, c.size>>20)
			// The server makes room for bodies in powers of two.
			if most := int64(1)<<bits.Len(uint(c.size)) + 8<<20; grown > most {
				t.Errorf("memory grew by %d MB for %d MB", grown>>20, c.size>>20)
			}
		})
	}
}

// scans repeats the last scan of a JPEG.
func scans(photo []byte, n int) []byte {
	at := bytes.LastIndex(photo, []byte{0xff, 0xda})
	scan := photo[at : len(photo)-2]
	return append(append(bytes.Clone(photo[:at]), bytes.Repeat(scan, n)...), 0xff, 0xd9)
}

// peakMemory is the most memory in bytes that a process has had, 0 where it cannot be read.
func peakMemory(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// The cap of forms is one of each file: several pictures may have more together
// than a JSON body, up to four of the largest, where several are taken.
func TestFormsOfSeveralLargePictures(t *testing.T) {
	t.Parallel()
	e := startEasel(t)
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(imagesConfig, e.URL, e.URL), "log: {",
		"server: { max_body: 1MB }\nlog: {", 1))
	g.NewAccount("a", "10")
	key := g.Key("a")
	file := pngOf(512, 512, pngChunk("tEXt", make([]byte, 900<<10)), pngChunk("IDAT", []byte("pixels")))
	for path, field := range map[string]string{"/image/multi-edit": "images", "/images/edits": "image[]"} {
		status, _, answer := newForm().field("prompt", "join them").file(field, file).file(field, file).file(field,
			file).send(t, g, path, key)
		if status != 200 {
			t.Errorf("%s: %d %.300s", path, status, answer)
		}
		if n := len(e.last().Files); n != 3 {
			t.Errorf("%s: %d files reached the upstream", path, n)
		}
	}
	if status, _, answer := newForm().field("prompt", "x").file("image", file).file("image", file).send(t, g,
		"/image/edit", key); status != 413 || !strings.Contains(string(answer), "at most 1MB") {
		t.Errorf("a form for one picture: %d %.300s", status, answer)
	}
	for path, want := range map[string]string{"/image/multi-edit": "at most 101MB", "/image/edit": "at most 1MB"} {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(rig.CallLimit))
		_, _ = fmt.Fprintf(c, "POST /api/v1%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"multipart/form-data; boundary=x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, key, 102<<20)
		answer, _ := io.ReadAll(io.LimitReader(c, 4<<10))
		_ = c.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 413")) || !bytes.Contains(answer, []byte(want)) {
			t.Errorf("%s: a form of 102 MB is answered %s", path, answer)
		}
	}
}
