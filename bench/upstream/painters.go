package upstream

import (
	"strconv"
	"strings"
)

// openaiImages answers POST /v1/images/generations and /v1/images/edits.
func (c *conn) openaiImages(x *exchange, p *painting) (int, bool, error) {
	x.endpoint = "images"
	a := p.asked
	switch {
	case x.sc.Status >= 400:
		return c.refuse(x, false, x.sc.Status, failureFor(x.sc, a.Get("model").Str))
	case a.Get("prompt").Str == "":
		return c.refuse(x, false, 400, failure{text: "Missing required parameter: 'prompt'.",
			kind: "invalid_request_error", param: "prompt"})
	case p.bad != "" || strings.HasSuffix(p.path, "/edits") && len(p.files) == 0:
		return c.refuse(x, false, 400, failure{text: "Invalid image file or mode for image 1.",
			kind: "image_generation_user_error", code: "invalid_image_file"})
	case x.sc.Image == "blocked":
		return c.refuse(x, false, 400, failure{
			text: "Your request was rejected by the safety system. If you believe this is an error, contact us and " +
				"include the request ID req_simsecret0001.",
			kind: "image_generation_user_error", code: "moderation_blocked",
		})
	}
	x.units = int64(p.count(x.sc))
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	out := []byte(`{"created":1700000000,"background":"opaque","data":[`)
	for i := range p.count(x.sc) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"b64_json":"`...)
		out = append(out, p.base64(x.sc, i)...)
		out = append(out, `","revised_prompt":`...)
		out = appendString(out, a.Get("prompt").Str+" (revised)")
		out = append(out, '}')
	}
	out = append(out, `],"output_format":"`+p.format+`","quality":"high","size":"`+strconv.Itoa(p.w)+"x"+
		strconv.Itoa(p.h)+`"`...)
	if x.sc.Usage != "none" {
		out = append(out, `,"usage":{"input_tokens":50,"input_tokens_details":{"image_tokens":40,"text_tokens":10},"output_tokens":1056,"total_tokens":1106}`...)
	}
	return c.sendJSON(x, append(out, '}'))
}

// nativeImage answers the endpoints of the gateway's own specification.
func (c *conn) nativeImage(x *exchange, p *painting) (int, bool, error) {
	x.endpoint = "image"
	a := p.asked
	refuse := func(status int, code, text string) (int, bool, error) {
		x.outcome = Refused
		out := appendString([]byte(`{"error":`), text)
		out = appendString(append(out, `,"code":`...), code)
		return c.reply(x.sc.refusal(), status, contentJSON, append(out, '}'))
	}
	kind := p.path[strings.LastIndexByte(p.path, '/')+1:]
	switch {
	case x.sc.Status >= 400:
		f := failureFor(x.sc, a.Get("model").Str)
		return refuse(x.sc.Status, "INFERENCE_FAILED", f.text)
	case a.Get("negative_prompt").Exists():
		return refuse(400, "INVALID_REQUEST", "negative_prompt is not accepted")
	case p.bad != "":
		return refuse(400, "CORRUPTED_IMAGE", p.bad)
	case kind != "generate" && len(p.files) == 0:
		return refuse(400, "INVALID_REQUEST", "image is required")
	case (kind == "generate" || strings.HasSuffix(kind, "edit")) && a.Get("prompt").Str == "":
		return refuse(400, "INVALID_REQUEST", "prompt is required")
	}
	switch kind {
	case "upscale":
		scale := a.Get("scale").Float()
		if scale == 0 {
			scale = 2
		}
		p.format = "png"
		p.scaled(scale)
	case "background-remove":
		p.format = "png"
		p.scaled(1)
	}
	if x.sc.Image == "blocked" {
		c.extra = append(c.extra, [2]string{"x-svc-is-content-violation", "true"},
			[2]string{"x-svc-is-blurred", "false"})
		if kind == "generate" && !a.Get("return_binary").Bool() {
			return c.sendJSON(x, p.nativeJSON(x.sc))
		}
		return c.sendImage(x, paint(512, 512, "png", black), "png")
	}
	c.extra = append(c.extra, [2]string{"x-svc-is-content-violation", "false"},
		[2]string{"x-svc-is-blurred", strconv.FormatBool(x.sc.Kind == "policy")})
	if kind == "generate" && !a.Get("return_binary").Bool() {
		return c.sendJSON(x, p.nativeJSON(x.sc))
	}
	return c.sendImage(x, p.image(x.sc, 0), p.format)
}

func (p *painting) nativeJSON(sc *Scenario) []byte {
	out := []byte(`{"id":"generate-image-1700000000","images":[`)
	for i := range p.count(sc) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, p.base64(sc, i)...)
		out = append(out, '"')
	}
	return append(out, `],"request":null,"timing":{"inferenceDuration":900,"inferencePreprocessingTime":5,"inferenceQueueTime":120,"total":1025}}`...)
}

// sdapi answers AUTOMATIC1111's endpoints.
func (c *conn) sdapi(x *exchange, p *painting) (int, bool, error) {
	x.endpoint = "sdapi"
	a := p.asked
	refuse := func(status int, kind, detail string) (int, bool, error) {
		x.outcome = Refused
		out := appendString([]byte(`{"error":`), kind)
		out = appendString(append(out, `,"detail":`...), detail)
		out = append(out, `,"body":"","errors":"OutOfMemoryError on gpu-3.internal.simulated"}`...)
		return c.reply(&Scenario{RetryAfter: x.sc.RetryAfter}, status, contentJSON, out)
	}
	switch {
	case x.sc.Status >= 400:
		return refuse(x.sc.Status, "OutOfMemoryError", "")
	case p.bad != "":
		return refuse(500, "HTTPException", "Invalid encoded image")
	}
	if strings.HasSuffix(p.path, "/extra-single-image") {
		p.scaled(a.Get("upscaling_resize").Float())
		return c.sendJSON(x, []byte(`{"html_info":"<p>done</p>","image":"`+p.base64(x.sc, 0)+`"}`))
	}
	n := p.count(x.sc)
	grid := n > 1 && a.Get("override_settings.return_grid").Raw != "false"
	out := []byte(`{"images":[`)
	if grid {
		out = append(out, `"`+p.base64(x.sc, 99)+`",`...)
	}
	info := []byte(`{"prompt":`)
	info = appendString(info, a.Get("prompt").Str)
	info = append(info, `,"all_seeds":[`...)
	for i := range n {
		if i > 0 {
			out = append(out, ',')
			info = append(info, ',')
		}
		out = append(out, `"`+p.base64(x.sc, i)+`"`...)
		info = strconv.AppendInt(info, p.seed+int64(i), 10)
	}
	first := 0
	if grid {
		first = 1
	}
	info = append(info, `],"index_of_first_image":`+strconv.Itoa(first)+`}`...)
	out = append(out, `],"parameters":{},"info":`...)
	return c.sendJSON(x, append(appendString(out, string(info)), '}'))
}

// stability answers /v2beta/stable-image/…; requests must be forms.
func (c *conn) stability(x *exchange, p *painting) (int, bool, error) {
	x.endpoint = "stability"
	a := p.asked
	refuse := func(status int, name, text string) (int, bool, error) {
		x.outcome = Refused
		out := []byte(`{"id":"sim0001","name":"` + name + `","errors":[`)
		out = append(appendString(out, text), "]}"...)
		return c.reply(&Scenario{RetryAfter: x.sc.RetryAfter}, status, contentJSON, out)
	}
	generate := strings.Contains(p.path, "/generate/")
	switch {
	case x.sc.Kind == "policy":
		return refuse(403, "content_moderation",
			"Your request was flagged by our content moderation system, as a result your request was denied and you "+
				"were not charged.")
	case x.sc.Status >= 400:
		return refuse(x.sc.Status, "error", "simulated failure at node-7.internal.simulated")
	case !strings.HasPrefix(string(c.req.content), "multipart/form-data"):
		return refuse(400, "bad_request", "content-type: must be multipart/form-data")
	case generate && a.Get("prompt").Str == "":
		return refuse(400, "bad_request", "prompt: cannot be blank")
	case p.bad != "" || !generate && len(p.files) == 0:
		return refuse(400, "bad_request", "image: not a valid image")
	case strings.HasSuffix(p.path, "/sd3") && p.format == "webp":
		return refuse(400, "bad_request", "output_format: must be one of jpeg, png")
	}
	p.scaled(1)
	if strings.Contains(p.path, "/upscale/") {
		p.scaled(4)
	}
	reason := "SUCCESS"
	if x.sc.Image == "blocked" {
		reason = "CONTENT_FILTERED"
	}
	seed := strconv.FormatInt(max(1, p.seed), 10)
	if strings.Contains(string(c.req.accept), "json") {
		return c.sendJSON(x, []byte(`{"image":"`+p.base64(x.sc, 0)+`","finish_reason":"`+reason+`","seed":`+seed+`}`))
	}
	c.extra = append(c.extra, [2]string{"finish-reason", reason}, [2]string{"seed", seed})
	return c.sendImage(x, p.image(x.sc, 0), p.format)
}
