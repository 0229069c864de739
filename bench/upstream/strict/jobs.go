package strict

import (
	"strings"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
)

// composeBody are the members of ElevenLabs' POST /v1/music.
var composeBody = map[string]string{"prompt": "string", "composition_plan": "object", "music_length_ms": "number",
	"model_id": "string", "seed": "number", "force_instrumental": "bool", "finetune_id": "string",
	"respect_sections_durations": "bool", "store_for_inpainting": "bool", "sign_with_c2pa": "bool"}

// falInput are the members of the simulated apps, and their types.
var falInput = map[string]string{
	"prompt": "string", "negative_prompt": "string", "lyrics_prompt": "string", "lyrics": "string",
	"lyrics_optimizer": "bool", "duration": "string number", "music_length_ms": "number", "force_instrumental": "bool",
	"loop": "bool", "voice": "string", "language": "string", "speed": "number", "aspect_ratio": "string",
	"resolution": "string", "upscale_factor": "number", "generate_audio": "bool", "image_url": "string",
	"end_image_url": "string", "video_url": "string", "audio_url": "string", "reference_image_urls": "array",
	"reference_video_urls": "array", "reference_audio_urls": "array", "elements": "array", "audio_setting": "object",
	"steps": "number",
}

// predictionBody are the members of a prediction that may be written.
var predictionBody = map[string]string{"input": "object", "version": "string", "webhook": "string",
	"webhook_events_filter": "array", "stream": "bool"}

// predictionInput are those of the simulated models.
var predictionInput = map[string]string{
	"prompt": "string", "negative_prompt": "string", "lyrics": "string", "duration": "number", "voice": "string",
	"language": "string", "speed": "number", "force_instrumental": "bool", "loop": "bool", "aspect_ratio": "string",
	"resolution": "string", "generate_audio": "bool", "image": "string", "last_frame_image": "string",
	"video": "string", "audio": "string", "reference_images": "array", "seed": "number",
}

// nativeMusic and nativeVideo are the members of the specification (addendum 9.6, 10.1).
var (
	nativeMusic = map[string]string{"model": "string", "prompt": "string", "lyrics_prompt": "string",
		"lyrics_optimizer": "bool", "duration_seconds": "number string", "force_instrumental": "bool", "loop": "bool",
		"voice": "string", "language_code": "string", "speed": "number"}
	nativeVideo = map[string]string{"model": "string", "prompt": "string", "negative_prompt": "string",
		"duration": "string", "aspect_ratio": "string", "resolution": "string", "upscale_factor": "number",
		"audio": "bool", "bitrate_mode": "string", "image_url": "string", "end_image_url": "string",
		"audio_url": "string", "video_url": "string", "reference_image_urls": "array", "reference_video_urls": "array",
		"reference_audio_urls": "array", "reference_document_urls": "array", "elements": "array",
		"scene_image_urls": "array", "keyframes": "array", "omni_reference_task_type": "string", "consents": "object"}
	nativeQueued = map[string]string{"model": "string", "queue_id": "string", "delete_media_on_completion": "bool"}
)

// strictly reports the fault of an object's members: each must be known, and of
// its type.
func strictly(asked gjson.Result, types map[string]string, required ...string) string {
	if !asked.IsObject() {
		return "the body is no object"
	}
	wrong := ""
	asked.ForEach(func(key, v gjson.Result) bool {
		want, known := types[key.Str]
		is := map[gjson.Type]string{gjson.String: "string", gjson.Number: "number", gjson.True: "bool",
			gjson.False: "bool", gjson.JSON: "object"}[v.Type]
		if v.IsArray() {
			is = "array"
		}
		switch {
		case !known:
			wrong = key.Str + ": Extra inputs are not permitted"
		case !strings.Contains(want, is) || is == "":
			wrong = key.Str + ": Input should be a valid " + want
		}
		return wrong == ""
	})
	for _, name := range required {
		if v := asked.Get(name); wrong == "" && (!v.Exists() || v.Type == gjson.String && strings.TrimSpace(v.Str) == "") {
			wrong = name + ": Field required"
		}
	}
	return wrong
}

// jobFault is why an API of jobs would not take a request.
func jobFault(r *upstream.Call) string {
	asked := r.Asked
	switch r.API {
	case "fal":
		return strictly(asked, falInput, "prompt")
	case "replicate":
		wrong := strictly(asked, predictionBody, "input")
		if wrong == "" {
			wrong = strictly(asked.Get("input"), predictionInput, "prompt")
		}
		for _, event := range asked.Get("webhook_events_filter").Array() {
			if !strings.Contains(" start output logs completed ", " "+event.Str+" ") {
				wrong = "webhook_events_filter: unknown event"
			}
		}
		return wrong
	case "native_music":
		return strictly(asked, nativeMusic, "model", "prompt")
	case "native_video":
		return strictly(asked, nativeVideo, "model", "prompt", "duration")
	case "native_job":
		return strictly(asked, nativeQueued, "model", "queue_id")
	}
	wrong, ms := strictly(asked, composeBody), asked.Get("music_length_ms")
	switch {
	case wrong != "":
	case asked.Get("prompt").Exists() == asked.Get("composition_plan").Exists():
		wrong = "exactly one of prompt and composition_plan is needed"
	case ms.Exists() && (ms.Int() < 3000 || ms.Int() > 600_000):
		wrong = "music_length_ms: must be between 3000 and 600000"
	}
	return wrong
}
