package upstream

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"sync"
)

// The measured path of pictures: requests for BenchImageModel are not parsed,
// and the answers are prepared. All else of pictures is in painting.go.

// BenchImageModel is the model of the measurements.
const BenchImageModel = "bench-image"

const (
	benchPicture = 768 << 10 // bytes of the picture, 1 MB in base64
	benchSide    = 1024      // its width and height in pixels
)

var benchImageMark = []byte(BenchImageModel)

// BenchImagePrompt asks for a picture in this API's form, BenchImageEdit has it
// in base64 for an edit.
var (
	BenchImagePrompt = []byte(`{"model":"` + BenchImageModel + `","prompt":"A river at dawn","format":"png"}`)
	BenchImageEdit   = sync.OnceValue(func() []byte {
		return []byte(`{"model":"` + BenchImageModel + `-edit","prompt":"Make it night","image":"` +
			benchPictureText() + `"}`)
	})
)

var benchPictureText = sync.OnceValue(func() string {
	return base64.StdEncoding.EncodeToString(padPNG(paint(benchSide, benchSide, "png", 1), benchPicture))
})

func benchImageAnswer(text string) []byte {
	return benchWhole([]byte(`{"created":1700000000,"data":[{"b64_json":"` + text +
		`"}],"output_format":"png","size":"1024x1024"}`))
}

// A request for a picture is answered with one of 1 MB, an edit with a small one.
var (
	benchMade   = sync.OnceValue(func() []byte { return benchImageAnswer(benchPictureText()) })
	benchEdited = sync.OnceValue(func() []byte {
		return benchImageAnswer(base64.StdEncoding.EncodeToString(paint(benchSide, benchSide, "png", 2)))
	})
)

// benchImage is the prepared answer to a request for pictures, nil for one that
// is not of the measurements. The model stands near the beginning of a JSON
// body, and somewhere around the files of a form.
func (c *conn) benchImage(path []byte) []byte {
	body := c.req.body
	near := func(b []byte) bool { return bytes.Contains(b, benchImageMark) }
	switch {
	case !near(body[:min(len(body), benchLook)]) && !near(body[max(0, len(body)-2*benchLook):]):
		return nil
	case bytes.HasSuffix(path, []byte("/images/generations")):
		return benchMade()
	case bytes.HasSuffix(path, []byte("/images/edits")):
		return benchEdited()
	}
	return nil
}

func benchWhole(body []byte) []byte {
	head := "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}
