package image

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"farebox/providers/image"
	"farebox/routes"
)

const oneFile = "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\nContent-Type: " +
	"image/png\r\n\r\nPNG\r\n--b\r\n" +
	"Content-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n--b--\r\n"

var imageBooks = []*routes.Rulebook{generateBook, simpleBook, simpleEditBook, editBook, multiEditBook, upscaleBook,
	cutOutBook}

// formOf reads a body as one of the image endpoints does.
func formOf(contentType string, body []byte, book *routes.Rulebook) (*imageForm, *routes.Error) {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.SetContentType(contentType)
	ctx.Request.SetBodyRaw(body)
	return readForm(&routes.Call{Ctx: ctx, Row: &routes.Row{Form: routes.JSONOrForm}}, book)
}

// Reading any body ends, and accepted values are in range.
func FuzzImageForm(f *testing.F) {
	f.Add(false, []byte(`{"model":"m","prompt":"x","style_references":[{"image":"AAAA","strength":0.5}],"num_images":2,"seed":-7}`))
	f.Add(false, []byte(`{"images":["a",1,null,"https:\\/\\/x"],"image":{"a":1},"image_2":"data:image/png;base64,AAAA","scale":1e0}`))
	f.Add(false, []byte(`{"prompt":"\ud83d\ude00","enhance":"true","creativity":-1e300,"image_url":""}`))
	f.Add(true, []byte(oneFile))
	f.Add(true, []byte("--b\r\nContent-Disposition: form-data; "+
		"name=\"scale\"\r\n\r\n2\r\n--b\r\nContent-Disposition: form-data; name=\"image[]\"\r\n\r\nhttp://x\r\n--b--"))
	f.Add(true, []byte("--b\r\nContent-Disposition: form-data; name=\"a\\\"b\"\r\n\r\n{}\r\n--b--"))
	f.Fuzz(func(t *testing.T, asForm bool, body []byte) {
		contentType := "application/json"
		if asForm {
			contentType = "multipart/form-data; boundary=b"
		}
		for _, book := range imageBooks {
			form, e := formOf(contentType, append([]byte(nil), body...), book)
			if e != nil {
				if e.Status < 400 || e.Status >= 500 {
					t.Fatalf("%+v", e)
				}
				continue
			}
			for _, id := range pictureMembers {
				for _, s := range form.pictures(id) {
					if link := s.link(); link != "" && !strings.HasPrefix(link, "http") {
						t.Fatalf("%q is taken for a link", link)
					}
					if _, e := s.takePicture(); e != nil && e.Status != 400 && e.Status != 422 {
						t.Fatalf("%+v", e)
					}
				}
			}
			rule, text := form.ruleOf(imagePrompt), ""
			if rule != nil {
				text = form.prompt(imagePrompt)
			}
			if len(form.v.Issues) > 0 {
				continue
			}
			if n := len([]rune(text)); rule != nil && n > rule.Characters {
				t.Fatalf("a prompt of %d characters is taken", n)
			}
			if n := form.v.Integer(imageNumImages); n < 0 || n > 4 {
				t.Fatalf("%d pictures are taken", n)
			}
			if x, ok := form.number(-1, imageScale); ok && (x < 1 || x > 4) {
				t.Fatalf("a scale of %v is taken", x)
			}
		}
	})
}

// A form means the same as its body in JSON.
func TestFormsAreReadAsJSON(t *testing.T) {
	field := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	form, e := formOf("multipart/form-data; boundary=b", []byte(field("scale", "2.5")+field("enhance", "true")+
		field("enhancePrompt", "say \"hi\"\n")+field("replication", "0")+"--b--"), upscaleBook)
	if e != nil || len(form.v.Issues) > 0 {
		t.Fatalf("%v %v", e, form)
	}
	scale, _ := form.number(-1, imageScale)
	if replication, ok := form.number(-1, imageReplication); scale != 2.5 || !ok || replication != 0 ||
		!form.flag(imageEnhance, false) || form.words(imageEnhanceWords) != "say \"hi\"\n" {
		t.Errorf("the form is read as %s", form.v.Body)
	}
	form, e = formOf("multipart/form-data; boundary=b", []byte(field("safe_mode", "false")+field("prompt", "12")+
		"--b--"), editBook)
	if e != nil || len(form.v.Issues) > 0 || form.flag(imageSafeMode, true) || form.words(imagePrompt) != "12" {
		t.Errorf("%v, the form is read as %s", e, form.v.Body)
	}
}

func TestNearestRatio(t *testing.T) {
	list := []string{"auto", "1:1", "16:9", "9:16", "3:2"}
	for want, wh := range map[string][2]float64{"1:1": {1000, 1001}, "16:9": {1792, 1024}, "9:16": {1, 3},
		"3:2": {1536, 1024}} {
		if got := nearestRatio(list, wh[0]/wh[1]); got != want {
			t.Errorf("%v is nearest to %s, want %s", wh, got, want)
		}
	}
	if got := nearestRatio([]string{"auto"}, 1); got != "" {
		t.Errorf("auto is taken for a ratio: %s", got)
	}
}

// An upscale beyond the specification's size is reduced to fit, and charged by its actual
// size.
func TestUpscalingIsReducedToFit(t *testing.T) {
	for _, c := range []struct {
		width, height int
		scale, want   float64
	}{
		{1024, 1024, 4, 4}, {1024, 1025, 4, 3.99}, {2048, 2048, 4, 2}, {4096, 2048, 4, 1.41}, {4096, 4096, 2, 1},
		{512, 512, 2, 2},
	} {
		p := &pictures{sources: []source{{path: "image"}}}
		p.job.Inputs = []image.Input{{Width: c.width, Height: c.height}}
		p.job.Scale, p.sale.Scale = image.Some(c.scale), c.scale
		e := p.fitScale()
		if out := float64(c.width) * float64(c.height) * p.sale.Scale * p.sale.Scale; e != nil ||
			p.sale.Scale != c.want || p.job.Scale.V != c.want || out > maxUpscaledPixels {
			t.Errorf("%d x %d by %v is enlarged by %v to %.0f pixels, %v", c.width, c.height, c.scale, p.sale.Scale,
				out, e)
		}
	}
	p := &pictures{sources: []source{{path: "image"}}}
	p.job.Inputs = []image.Input{{Width: 4096, Height: 4097}}
	p.job.Scale = image.Some(2.0)
	if e := p.fitScale(); e == nil || e.Status != 422 || e.Code != "IMAGE_TOO_LARGE" {
		t.Errorf("a picture that is too large already is answered %+v", e)
	}
}
