package jobs

import (
	"math"

	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// videos is the kind of jobs that make videos.
var videos = newKind(kind{
	JobKind: config.VideoKind, operation: "video_generation", probes: []*routes.RateClass{byProbes},
	shape: videoShape, quoteBook: videoQuoteBook, queueBook: videoQueueBook, once: flagRule,
	check: checkVideo, quote: (*Capability).quoteVideo, sell: (*Capability).sellVideo,
	failed: failedVideo, link: linkToVideo, deliver: nothingToSee,
})

// byProbes limits requests that have us follow links.
var byProbes = class("video-probe", config.VideoKind, 40)

// Ids of the members of all bodies about videos (addendum 10). One Shape names them all;
// every member that an endpoint does not take is refused by its name.
const (
	videoModel = iota
	videoPrompt
	videoNegative
	videoDuration
	videoRatio
	videoResolution
	videoFactor
	videoAudio
	videoBitrate
	videoImage
	videoEndImage
	videoSound
	videoSource
	videoImages
	videoVideos
	videoSounds
	videoDocuments
	videoElements
	videoScenes
	videoKeyframes
	videoTask
	videoConsents
	videoReferenceSeconds
	videoInputHeight
)

var videoShape = scan.NewShape(scan.Members(map[string]*scan.Shape{
	"elements":  scan.NewShape(scan.Members(nil, "frontal_image_url", "reference_image_urls", "video_url")...),
	"keyframes": scan.NewShape(scan.Members(nil, "image_url", "frame_index")...),
},
	"model", "prompt", "negative_prompt", "duration", "aspect_ratio", "resolution", "upscale_factor", "audio",
	"bitrate_mode", "image_url", "end_image_url", "audio_url", "video_url", "reference_image_urls",
	"reference_video_urls", "reference_audio_urls", "reference_document_urls", "elements", "scene_image_urls",
	"keyframes", "omni_reference_task_type", "consents", "reference_video_total_duration", "input_height", "queue_id",
	"delete_media_on_completion",
)...)

const (
	maxText     = 20000 // characters of a prompt
	maxElements = 4
	maxFrames   = 10
	frameRate   = 24 // pictures of a second that keyframes are counted in
	// maxReferenceSeconds is the longest that a quote is asked for: ten clips of 15 s.
	maxReferenceSeconds = 150
)

var (
	linkRule   = &routes.Rule{Kinds: routes.String, NonEmpty: true}
	flagRule   = &routes.Rule{Kinds: routes.Bool}
	promptRule = &routes.Rule{Kinds: routes.String, NonEmpty: true, Characters: maxText}
	// taskNames are the task types with the names that stand for them.
	taskNames = map[string]string{"editing": "edit", "extension": "extend"}
)

func linksRule(most int) *routes.Rule {
	return &routes.Rule{Kinds: routes.Array, Length: most, Elements: linkRule}
}

// Rules that quotes and jobs share, since they decide about the price.
func pricedRules(more map[string]*routes.Rule) map[string]*routes.Rule {
	rules := map[string]*routes.Rule{
		"model":    ruleModel,
		"duration": {Kinds: routes.String, Enum: config.VideoDurations}, "audio": flagRule,
		"aspect_ratio":   {Kinds: routes.String, Enum: config.VideoRatios},
		"resolution":     {Kinds: routes.String, Enum: config.VideoResolutions},
		"upscale_factor": {Kinds: routes.Number, Integer: true, Min: 1, Max: 4}, "video_url": linkRule,
	}
	for name, r := range more {
		rules[name] = r
	}
	return rules
}

var (
	videoQuoteBook = routes.NewRulebook(videoShape, pricedRules(map[string]*routes.Rule{
		"reference_video_total_duration": {Kinds: routes.Number, Min: 0, Max: maxReferenceSeconds},
		"input_height":                   {Kinds: routes.Number, Integer: true, Min: 1, Max: math.Inf(1)},
	}))
	videoQueueBook = routes.NewRulebook(videoShape, pricedRules(map[string]*routes.Rule{
		"prompt": promptRule, "negative_prompt": {Kinds: routes.String, Characters: maxText},
		"bitrate_mode": {Kinds: routes.String, Enum: config.VideoBitrateModes},
		"image_url":    linkRule, "end_image_url": linkRule, "audio_url": linkRule,
		"reference_image_urls": linksRule(30), "reference_video_urls": linksRule(10),
		"reference_audio_urls": linksRule(10), "reference_document_urls": linksRule(1),
		"elements":                      {Kinds: routes.Array, Length: maxElements},
		"elements.frontal_image_url":    linkRule,
		"elements.reference_image_urls": linksRule(3), "elements.video_url": linkRule,
		"scene_image_urls":      linksRule(4),
		"keyframes":             {Kinds: routes.Array, Length: maxFrames},
		"keyframes.image_url":   {Kinds: routes.String, Required: true, NonEmpty: true},
		"keyframes.frame_index": {Kinds: routes.Number, Required: true, Integer: true, Min: 0, Max: math.Inf(1)},
		"omni_reference_task_type": {Kinds: routes.String,
			Enum: append([]string{"editing", "extension"}, config.VideoTasks...)},
		"consents": {Kinds: routes.Object},
	}))
)
