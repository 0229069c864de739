package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	stdimage "image"
	"image/color"
	_ "image/gif"
	"image/jpeg"
	"image/png"
	"strconv"
	"strings"
	"sync"

	"github.com/gen2brain/webp"
	"github.com/tidwall/gjson"
	_ "golang.org/x/image/webp"
)

// painting is one image request, in any form.
type painting struct {
	path   string
	asked  gjson.Result // the text fields, of a form too
	n      int
	w, h   int
	format string // png, jpeg, webp
	seed   int64
	files  []stdimage.Config // headers of the input images, in order
	bad    string            // why an input is refused
}

type painter func(c *conn, x *exchange, p *painting) (int, bool, error)

// painterOf finds the handler of a path.
func painterOf(path string) (painter, bool) {
	var f painter
	switch {
	case strings.HasSuffix(path, "/images/generations"), strings.HasSuffix(path, "/images/edits"):
		f = (*conn).openaiImages
	case strings.Contains(path, "/sdapi/v1/"):
		f = (*conn).sdapi
	case strings.Contains(path, "/stable-image/"):
		f = (*conn).stability
	case strings.Contains(path, "/image/"):
		f = (*conn).nativeImage
	case strings.HasPrefix(path, "/fal/"):
		f = (*conn).fal
	}
	return f, f != nil
}

// painting reads the request; nil: it is not a valid form.
func (c *conn) painting(path string) (*painting, gjson.Result) {
	p := &painting{path: path, n: 1, w: 1024, h: 1024, format: "png"}
	if bytes.HasPrefix(c.req.content, []byte("multipart/form-data")) {
		fields, ok := c.form()
		if !ok {
			return nil, gjson.Result{}
		}
		p.form(fields)
	} else {
		p.asked = gjson.ParseBytes(c.req.body)
		for _, field := range []string{"image", "init_images", "images", "image_url", "image_urls"} {
			v := p.asked.Get(field)
			list := []gjson.Result{v}
			if v.IsArray() {
				list = v.Array()
			}
			for _, item := range list {
				if item.Type == gjson.String && !strings.HasPrefix(item.Str, "http") {
					p.text(item.Str)
				}
			}
		}
	}
	a := p.asked
	for _, field := range []string{"n", "num_images", "variants", "batch_size"} {
		if v := a.Get(field); v.Exists() {
			p.n = max(1, min(10, int(v.Int())))
		}
	}
	for _, field := range []string{"output_format", "format"} {
		if v := a.Get(field).String(); v == "png" || v == "jpeg" || v == "webp" {
			p.format = v
		}
	}
	if w, h, ok := strings.Cut(a.Get("size").String(), "x"); ok {
		p.w, p.h = number0(w), number0(h)
	}
	if v := a.Get("width").Int(); v > 0 {
		p.w, p.h = int(v), int(a.Get("height").Int())
	}
	if v := a.Get("image_size.width").Int(); v > 0 {
		p.w, p.h = int(v), int(a.Get("image_size.height").Int())
	}
	p.seed = a.Get("seed").Int()
	p.w, p.h = max(64, min(p.w, 4096)), max(64, min(p.h, 4096))
	return p, p.asked
}

func number0(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// form takes files for pictures; text fields become a JSON object.
func (p *painting) form(fields []Field) {
	texts := map[string]string{}
	for _, f := range fields {
		if f.File != "" {
			p.file([]byte(f.Value))
		} else if _, twice := texts[f.Name]; !twice {
			texts[f.Name] = f.Value
		}
	}
	raw, _ := json.Marshal(texts)
	p.asked = gjson.ParseBytes(raw)
}

func (p *painting) text(s string) {
	if rest, ok := strings.CutPrefix(s, "data:"); ok {
		_, s, _ = strings.Cut(rest, ",")
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		p.bad = "input is not base64"
		return
	}
	p.file(b)
}

func (p *painting) file(b []byte) {
	cfg, _, err := stdimage.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		p.bad = "input is not an image"
		return
	}
	p.files = append(p.files, cfg)
}

// scaled sizes the output after the first input.
func (p *painting) scaled(by float64) {
	if len(p.files) > 0 {
		p.w, p.h = int(float64(p.files[0].Width)*by), int(float64(p.files[0].Height)*by)
	}
}

// image is the i-th output, spoiled as the scenario says.
func (p *painting) image(sc *Scenario, i int) []byte {
	b := paint(p.w, p.h, p.format, uint64(p.seed)+uint64(i))
	if sc.Big > 0 && p.format == "png" {
		b = padPNG(b, int(sc.Big))
	}
	switch sc.Image {
	case "cut":
		b = b[:len(b)/2/3*3]
	case "text":
		b = []byte(strings.Repeat("this is not an image. ", 40))
	case "gif":
		b = append([]byte("GIF89a\x40\x00\x40\x00\x00\x00\x00;"), make([]byte, 64)...)
	case "blocked":
		b = paint(p.w, p.h, p.format, black)
	}
	return b
}

// count is how many images there are to be.
func (p *painting) count(sc *Scenario) int {
	if sc.Image == "missing" {
		return p.n - 1
	}
	return p.n
}

// base64 is the i-th output as text, between its quotes.
func (p *painting) base64(sc *Scenario, i int) string {
	s := base64.StdEncoding.EncodeToString(p.image(sc, i))
	switch sc.Image {
	case "escaped":
		s = strings.ReplaceAll(s, "/", `\/`)
	case "prefixed":
		s = "data:image/" + p.format + ";base64," + s
	}
	return s
}

// sendImage answers with raw bytes.
func (c *conn) sendImage(x *exchange, b []byte, format string) (int, bool, error) {
	return c.sendBytes(x, b, "image/"+format)
}

// sendBytes answers with a file, spoiled as the scenario says.
func (c *conn) sendBytes(x *exchange, b []byte, content string) (int, bool, error) {
	if x.sc.Endless {
		return c.sendEndless(x, content, b)
	}
	if x.sc.HTML {
		return c.sendPage(x)
	}
	if x.sc.Empty {
		b = nil
	}
	if x.sc.Cut != "" || x.sc.Truncate {
		x.outcome = Broken
	}
	length := len(b)
	if x.sc.Chunk > 0 {
		length = -1
	}
	c.wire.begin(x.sc, 200, content, length)
	keep, err := c.wire.body(b)
	return 200, keep, err
}

// sendJSON answers with a JSON body.
func (c *conn) sendJSON(x *exchange, b []byte) (int, bool, error) {
	if x.sc.Endless {
		return c.sendEndless(x, contentJSON, b[:len(b)-1])
	}
	if x.sc.HTML {
		return c.sendPage(x)
	}
	return c.sendBody(x, b)
}

// sendPage is an error page with a status that says all is well.
func (c *conn) sendPage(x *exchange) (int, bool, error) {
	x.outcome = Broken
	c.wire.begin(x.sc, 200, contentHTML, -1)
	keep, err := c.wire.body([]byte(
		"<html><head><title>Just a moment...</title></head><body>backend-7.internal.simulated</body></html>"))
	return 200, keep, err
}

// sendEndless begins like b and never stops.
func (c *conn) sendEndless(x *exchange, content string, b []byte) (int, bool, error) {
	x.outcome = Broken
	c.wire.begin(x.sc, 200, content, -1)
	more := bytes.Repeat([]byte("A"), 64<<10)
	for {
		if err := c.wire.event(b, 0); err != nil {
			return 200, false, err
		}
		b = more
	}
}

// black is the seed of an image that was withheld.
const black = ^uint64(0)

type brush struct {
	w, h   int
	format string
	seed   uint64
}

// gallery caches paintings: the same request gives the same bytes.
var gallery struct {
	mu   sync.Mutex
	list map[brush][]byte
}

// maxGallery bounds the kept images.
const maxGallery = 64

// paint makes an image file that depends only on its arguments.
func paint(w, h int, format string, seed uint64) []byte {
	key := brush{w, h, format, seed}
	gallery.mu.Lock()
	defer gallery.mu.Unlock()
	if b := gallery.list[key]; b != nil {
		return b
	}
	m := stdimage.NewNRGBA(stdimage.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{A: 255}
			if seed != black {
				n := mix(seed ^ uint64(x/16)<<32 ^ uint64(y/16))
				c.R, c.G, c.B = uint8(n), uint8(n>>8), uint8(n>>16)
			}
			m.SetNRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	var err error
	switch format {
	case "jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "webp":
		err = webp.Encode(&b, m, webp.Options{Quality: 75, Method: 0})
	default:
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	}
	if err != nil {
		panic(err) // it encodes its own picture into memory
	}
	if gallery.list == nil || len(gallery.list) >= maxGallery {
		gallery.list = map[brush][]byte{}
	}
	gallery.list[key] = b.Bytes()
	return b.Bytes()
}

// padPNG brings a PNG to a size with a chunk that decoders pass over.
func padPNG(b []byte, size int) []byte {
	const head = 8 + 25 // signature and IHDR
	n := size - len(b) - 12
	if n <= 0 {
		return b
	}
	chunk := make([]byte, 12+n)
	binary.BigEndian.PutUint32(chunk, uint32(n))
	copy(chunk[4:], "siMu")
	for i := range n {
		chunk[8+i] = byte(mix(uint64(i)))
	}
	binary.BigEndian.PutUint32(chunk[8+n:], crc32.ChecksumIEEE(chunk[4:8+n]))
	out := append(make([]byte, 0, size), b[:head]...)
	return append(append(out, chunk...), b[head:]...)
}
