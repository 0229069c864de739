package video

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

var hider = rig.Hider{
	Names: strings.Fields(`model prompt negative_prompt duration seconds num_frames aspect_ratio resolution size upscale_factor audio generate_audio
		bitrate_mode image_url image end_image_url last_frame_image audio_url video_url video reference_image_urls reference_images
		reference_video_urls reference_audio_urls elements frontal_image_url frontal_image_url scene_image_urls keyframes frame_index omni_reference_task_type
		consents webhook webhook_url webhook_events_filter fal_webhook version input n num_videos seed reference_video_total_duration`),
	Values: strings.Fields(`"5s" "10s" 10 "10" 600 "480p" "1080p" "4K" true false null [] {} ["a"] 4 4.0 "auto" "16:9" "high" "edit"
		"http://169.254.169.254/" "https://x.example/hook" {"duration":"10s"} ["http://10.0.0.1/"] [{"video_url":"http://10.0.0.1/"}]
		[{"image_url":"data:,x","frame_index":1,"Image_url":"http://10.0.0.1/"}] {"acme":{}} "by-second" 4`),
	Known: strings.Fields(`duration="10s" duration="5s" duration="4s" duration="auto" resolution="480p" resolution="720p" resolution="1080p" audio=false
		audio=true aspect_ratio="16:9" bitrate_mode="high" upscale_factor=4 upscale_factor=1.0 upscale_factor=2e0 negative_prompt="\u0061"
		omni_reference_task_type="editing" reference_video_urls=[] duration="1\u0020gen"`),
}

// still is a picture, as far as it is looked at.
const still = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="

// "You price five seconds, and the upstream makes ten." The same for the size, the sound, and
// enlarged videos.
func TestEveryFilmMakerReadsThePricedOrder(t *testing.T) {
	t.Parallel()
	s := startWith(t, ", per_account: 100000", "", "", "", `
  - id: parts
    type: video
    tier: unlimited
    constraints: { durations: [5s, 10s] }
    inputs: { image: optional, end_image: optional, reference_images: 2, elements: 2, keyframes: 2, scenes: 2 }
    price: { second: { any: 0.07 } }
    targets: [{ upstream: native, model: sim-video }]
`)
	s.NewAccount("a", "1000000")
	clips := map[string]int64{reel(2*time.Second, 400, 24): 2, reel(3*time.Second, 400, 24): 3}
	var clip []string
	for text := range clips {
		clip = append(clip, text)
	}
	model := ""
	h := rig.Hidden{Gateway: s.Gateway, Sim: s.sim, Key: s.Key("a", "--type", "ADMIN"), Jobs: true}
	h.Body = func(r *rand.Rand, mark string) (path, body, contentType string) {
		model = []string{"by-second", "by-second", "by-piece", "either", "larger", "parts", "parts"}[r.IntN(7)]
		body = `{"model":"` + model + `","prompt":"` + mark + `"`
		switch one := `"` + clip[r.IntN(2)] + `"`; model {
		case "by-second":
			body += `,"duration":"5s","resolution":"480p","audio":true,"reference_video_urls":[` + one + `]`
		case "by-piece":
			body += `,"duration":"5s","resolution":"480p"`
		case "either":
			body += `,"duration":"4s","audio":true`
		case "parts":
			body += strings.ReplaceAll(`,"duration":"5s","image_url":"PNG","elements":[{"frontal_image_url":"PNG","reference_image_urls":["PNG"]}],`+
				`"keyframes":[{"image_url":"PNG","frame_index":24}],"scene_image_urls":["PNG"]`, "PNG", still)
		case "larger":
			body += `,"video_url":` + one + `,"upscale_factor":2`
		}
		return "/video/queue", hider.JSON(r, body+"}"), "application/json"
	}
	h.Price = func(_ string, body map[string]any) (int64, error) { return filmed(model, body, clips) }
	h.Run(t, servers.Campaign(200))
}

// filmed is the price of the video that a request orders of an upstream.
func filmed(model string, body map[string]any, clips map[string]int64) (int64, error) {
	if input, nested := body["input"].(map[string]any); nested && len(body) == 1 {
		body = input
	}
	for name, v := range body {
		if !slices.Contains(strings.Fields(`model prompt negative_prompt duration resolution audio generate_audio aspect_ratio bitrate_mode
			upscale_factor video_url reference_video_urls omni_reference_task_type image_url end_image_url elements keyframes
			scene_image_urls reference_image_urls`), name) {
			return 0, fmt.Errorf("%s is not known", name)
		}
		if name != "negative_prompt" && strings.Contains(fmt.Sprint(v), "http") {
			return 0, fmt.Errorf("%s leads to %v", name, v)
		}
	}
	said := func(name string) string { return rig.Said(body, name) }
	duration, resolution := said("duration"), said("resolution")
	seconds, _ := strconv.ParseInt(strings.TrimSuffix(duration, "s"), 10, 64)
	sound := said("audio") != "false" && said("generate_audio") != "false"
	switch model {
	case "by-second":
		rate := map[string]int64{"480p": 20_000_000, "720p": 50_000_000}[resolution]
		if rate == 0 {
			rate = 123_456_700
		}
		if !sound && resolution == "1080p" {
			rate = 80_000_000
		}
		clip := int64(0)
		list, _ := body["reference_video_urls"].([]any)
		for _, text := range list {
			clip += clips[fmt.Sprint(text)]
		}
		return seconds*rate + clip*10_100_000, nil
	case "parts":
		for _, name := range []string{"image_url", "end_image_url", "elements", "keyframes", "scene_image_urls", "reference_image_urls"} {
			if left := strings.ReplaceAll(fmt.Sprint(body[name]), still, ""); strings.Contains(left, ":/") || strings.Contains(left, "data:") {
				return 0, fmt.Errorf("%s leads to %s", name, left)
			}
		}
		return seconds * 70_000_000, nil
	case "by-piece":
		return map[bool]int64{true: 85_000_000, false: 170_000_000}[resolution == "480p"], nil
	case "either":
		switch {
		case duration == "1 gen" && sound:
			return 500_000_000, nil
		case duration == "1 gen":
			return 400_000_000, nil
		case duration == "auto":
			seconds = 12
		}
		return seconds * 30_000_000, nil
	}
	rate := map[string]int64{"1": 13_000_000, "2": 25_000_000, "4": 100_000_000}[said("upscale_factor")] // of 400 lines
	return clips[said("video_url")] * rate, nil
}
