package upstream

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// compose answers ElevenLabs' POST /v1/music: the answer is the track.
func (c *conn) compose(x *exchange, _ string, asked gjson.Result) (int, bool, error) {
	refuse := func(status int, code, text, more string) (int, bool, error) {
		return c.sayJob(x, status, `{"detail":{"status":"`+code+`","message":`+jsonText(text)+more+`}}`)
	}
	if !c.authorized() || c.req.scheme != "xi-api-key" {
		return refuse(401, "invalid_api_key", "Invalid API key sk_simsecret0001", "")
	}
	_, query, _ := strings.Cut(string(c.req.path), "?")
	values, _ := url.ParseQuery(query)
	codec, _, _ := strings.Cut(values.Get("output_format"), "_")
	format := map[string]string{"": "mp3", "auto": "mp3", "mp3": "mp3", "opus": "opus", "pcm": "pcm"}[codec]
	ms := asked.Get("music_length_ms")
	wrong := c.check(Call{API: "elevenlabs", Asked: asked}).Text
	switch {
	case wrong != "" || format == "":
		return c.sayJob(x, 422, `{"detail":[{"loc":["body"],"msg":`+jsonText(cmp.Or(wrong, "output_format: unknown"))+`,"type":"value_error"}]}`)
	case x.sc.Kind == "policy":
		return refuse(400, "bad_prompt", "Your prompt violates our terms of service.",
			`,"data":{"prompt_suggestion":"a kind song"}`)
	case x.sc.Kind == "quota":
		return refuse(401, "quota_exceeded", "This request exceeds your quota of 10000 (org-simsecret0001).", "")
	case x.sc.Status >= 400:
		return refuse(x.sc.Status, "error", "failed on gpu-3.internal.simulated", "")
	}
	o := order{Ordered: Ordered{Door: "elevenlabs", Kind: "music", Prompt: asked.Get("prompt").Str, Seconds: 10},
		format: format}
	if ms.Exists() {
		o.Seconds = ms.Float() / 1000
	}
	kept := c.take(x, o)
	if c.swallowed(x) {
		return 0, false, nil
	}
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	c.srv.mu.Lock()
	kept.Made, kept.Charged, kept.Fetched = true, true, 1
	c.srv.mu.Unlock()
	if x.sc.Wrong != "" || x.sc.Empty {
		return c.sendBody(x, []byte(`{"detail":"no track"}`))
	}
	c.extra = append(c.extra, [2]string{"song-id", kept.ID}, [2]string{"character-cost", "100"})
	return c.sendFile(x, kept)
}
