package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Video is the Spec of a model that makes videos in its own time (addendum 7.4 and
// 10). Its price is in no record: clients ask for it by POST /video/quote.
type Video struct {
	// The model's limits. Lists that are empty mean that clients cannot choose.
	Constraints VideoConstraints `yaml:"constraints"`
	// Inputs besides a prompt.
	Inputs VideoInputs `yaml:"inputs"`
	// Terms of the provider that clients must agree to with each job. Default: none.
	Consents []Consent `yaml:"consents" most:"8 consents"`
	// POST /video/queue answers with a link, valid for a day and for one full download.
	DownloadURL bool `yaml:"download_url"`
	// Id of another video model. Clients get it as a recommendation when the provider refuses a prompt. Default: none.
	Recommend string `yaml:"recommend"`
	// USD by resolution; any stands for all without a row. Required; write price: free if it is free.
	Price *VideoPrice `yaml:"price"`
}

// VideoConstraints are the limits of a model of videos (addendum 7.4). Lists that are empty mean
// that the client cannot choose.
type VideoConstraints struct {
	// Kind of model in the catalog.
	ModelType string `yaml:"model_type" default:"text-to-video" oneof:"text-to-video image-to-video video"`
	// Ratios, in quotes. Default: clients cannot choose.
	AspectRatios []string `yaml:"aspect_ratios" most:"32 values" oneof:"@ratios" unique:"value"`
	// Resolutions. Default: clients cannot choose.
	Resolutions []string `yaml:"resolutions" most:"32 values" oneof:"@resolutions" unique:"value"`
	// Resolution when the client names none. Default: the first.
	DefaultResolution string `yaml:"default_resolution"`
	// Some of 1s to 30s, auto, "-1" and 1 gen. Default: clients cannot choose.
	Durations []string `yaml:"durations" most:"32 values"`
	// Seconds that are charged when the client does not say how long, for models with a price by the second: the
	// longest video of the model.
	AutoSeconds int64 `yaml:"auto_seconds" default:"0" range:"0..600"`
	// It makes sound.
	Audio bool `yaml:"audio"`
	// Clients may do without sound.
	AudioConfigurable bool `yaml:"audio_configurable"`
	// Longest prompt.
	PromptCharacters int64 `yaml:"prompt_characters" default:"2500" range:"1..20000"`
}

// VideoInputs are the inputs of a video model besides a prompt (addendum 10.1).
type VideoInputs struct {
	// First picture. Default: required with model_type: image-to-video, else none.
	Image string `yaml:"image" oneof:"none optional required"`
	// Last picture. Default none.
	EndImage string `yaml:"end_image" oneof:"none optional required"`
	// Sound. Default none.
	Audio string `yaml:"audio" oneof:"none optional required"`
	// Video. Default: required with upscale_factors, else none.
	Video string `yaml:"video" oneof:"none optional required"`

	// Reference pictures of a job.
	ReferenceImages int `yaml:"reference_images" default:"0" range:"0..30"`
	// Reference videos of a job.
	ReferenceVideos int `yaml:"reference_videos" default:"0" range:"0..10"`
	// Reference sounds of a job.
	ReferenceAudios int `yaml:"reference_audios" default:"0" range:"0..10"`
	// Reference documents of a job.
	ReferenceDocuments int `yaml:"reference_documents" default:"0" range:"0..1"`
	// Elements of a job.
	Elements int `yaml:"elements" default:"0" range:"0..4"`
	// Scenes of a job.
	Scenes int `yaml:"scenes" default:"0" range:"0..4"`
	// Key frames of a job.
	Keyframes int `yaml:"keyframes" default:"0" range:"0..10"`

	// Values of omni_reference_task_type. Default: none.
	Tasks []string `yaml:"tasks" most:"32 values" oneof:"@tasks" unique:"value"`
	// Bit rates that clients may choose. Default: none.
	BitrateModes []string `yaml:"bitrate_modes" most:"32 values" oneof:"@bitrates" unique:"value"`
	// The model enlarges a video: some of 1, 2, 4. Default: it does not.
	UpscaleFactors []int64 `yaml:"upscale_factors"`
	// Shortest video that is given.
	VideoMinSeconds int64 `yaml:"video_min_seconds" zero:"1" range:"1..600"`
	// Longest video that is given, at most 600.
	VideoMaxSeconds int64 `yaml:"video_max_seconds" zero:"60"`
	// Videos are sent as data URLs alone, since the host of a link may show the upstream another video.
	DataOnly bool `yaml:"data_only"`
}

// Consent is a provider's policy that a client of a model must agree to (addendum 3.4, 10.1).
type Consent struct {
	// Member of consents in requests: 1 to 64 lower-case letters, digits, _ or -. Required.
	Provider string `yaml:"provider"`
	// Version of the terms. Required.
	Version string `yaml:"version"`
	// What clients agree to. Required.
	PolicyText string `yaml:"policy_text"`
	// Link to the terms. Required.
	DocsURL string `yaml:"docs_url"`
	// Members such as image_url whose media may show faces. The consent is needed with one of them only. Default:
	// always.
	FaceMediaRoles []string `yaml:"face_media_roles"`
}

// Upscales says that the model enlarges a video, whose length is the price.
func (vi *Video) Upscales() bool { return len(vi.Inputs.UpscaleFactors) > 0 }

const (
	maxVideoSeconds = 600
	maxPolicyText   = 32 << 10
)

// The values that addendum 10.1 lets clients write.
var (
	VideoRatios = []string{"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "9:21", "16:9", "21:9",
		"adaptive", "auto"}
	VideoResolutions = []string{"256p", "360p", "480p", "540p", "580p", "720p", "1080p", "1440p", "2160p", "4k",
		"2x", "4x", "2K", "768P", "true_1080p"}
	VideoTasks        = []string{"auto", "reference", "edit", "extend"}
	VideoBitrateModes = []string{"standard", "high"}
	// VideoMediaRoles are the members of a job that carry media.
	VideoMediaRoles = []string{"image_url", "end_image_url", "audio_url", "video_url", "reference_image_urls",
		"reference_video_urls", "reference_audio_urls", "reference_document_urls", "elements", "scene_image_urls",
		"keyframes"}
	upscaleFactors = []int64{1, 2, 4}
	consentName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
)

// VideoDurations are all that a client may ask for; each model takes some.
var VideoDurations = func() []string {
	list := make([]string, 0, 34)
	for n := range 30 {
		list = append(list, strconv.Itoa(n+1)+"s")
	}
	return append(list, "-1", OneGeneration, "auto", "Auto")
}()

// OneGeneration is the duration of models that sell by the video, whatever its length.
const OneGeneration = "1 gen"

// VideoSeconds is how long a video of a duration is; 0: the duration does not say.
func VideoSeconds(duration string) int64 {
	if digits, ok := strings.CutSuffix(duration, "s"); ok {
		if n, err := strconv.ParseInt(digits, 10, 32); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// VideoKind makes videos. The specification requires a prompt and a duration of each
// (addendum 10.1), also where one is enlarged, which has its length.
var VideoKind = &JobKind{
	Name: "video", Path: "/video", Media: "video/",
	Required: map[string]string{"prompt": "Enlarge this video.", "duration": "auto"},
	Outputs:  []string{"video", "video_file", "video_url", "videos", "output", "outputs", "file", "files", "data", "result", "url"},
	dialects: []string{"native", "fal", "replicate"}, things: "videos",
	spec: func() JobSpec { return &Video{} },
}

// Record has the model's limits; its price is asked for (addendum 7.4).
func (vi *Video) Record() []Member {
	c := &vi.Constraints
	return []Member{{"constraints", []Member{
		{"aspect_ratios", c.AspectRatios}, {"resolutions", c.Resolutions}, {"durations", c.Durations},
		{"model_type", c.ModelType}, {"audio", c.Audio}, {"audio_configurable", c.AudioConfigurable},
		{"prompt_character_limit", c.PromptCharacters},
	}}}
}

// Text is false: the answers are pictures and sound.
func (vi *Video) Text() bool { return false }

// Free says that `price: free` is written.
func (vi *Video) Free() bool { return vi.Price != nil && vi.Price.Free }

func (vi *Video) complete(*Model) {
	c, in := &vi.Constraints, &vi.Inputs
	if c.DefaultResolution == "" && len(c.Resolutions) > 0 {
		c.DefaultResolution = c.Resolutions[0]
	}
	for _, need := range []*string{&in.Image, &in.EndImage, &in.Audio, &in.Video} {
		if *need == "" {
			switch {
			case need == &in.Image && c.ModelType == "image-to-video", need == &in.Video && vi.Upscales():
				*need = "required"
			default:
				*need = "none"
			}
		}
	}
}

func (vi *Video) check(v *validator, path string, own *Model) {
	vi.checkConstraints(v, path+".constraints")
	vi.checkInputs(v, path+".inputs")
	vi.checkConsents(v, path+".consents")
	vi.checkPrice(v, path+".price")
	if vi.Recommend == "" {
		return
	}
	at := path + ".recommend"
	i, ok := v.ids[vi.Recommend]
	switch {
	case vi.Recommend == own.ID:
		v.wrong(at, "the model would recommend itself; expected the id of another video model")
	case !ok || v.c.Models[i].Type != own.Type:
		v.wrong(at, "there is no video model %s; expected the id of one of this file", quote(vi.Recommend))
	}
}

func (vi *Video) checkConstraints(v *validator, path string) {
	c := &vi.Constraints
	v.standard(path, "default_resolution", c.DefaultResolution, "resolutions", c.Resolutions)
	v.choices(path+".durations", c.Durations, func(s string) bool { return slices.Contains(VideoDurations, s) },
		"expected 1s to 30s, auto, Auto, \"-1\" or 1 gen")
	if c.AudioConfigurable && !c.Audio {
		v.wrong(path+".audio_configurable", "the model makes no audio; expected audio: true too")
	}
}

func (vi *Video) checkInputs(v *validator, path string) {
	in := &vi.Inputs
	for i, n := range in.UpscaleFactors {
		if at := fmt.Sprintf("%s.upscale_factors[%d]", path, i); !slices.Contains(upscaleFactors, n) ||
			slices.Contains(in.UpscaleFactors[:i], n) {
			v.wrong(at, "%s is not a factor, or a duplicate; expected 1, 2 or 4, each once", v.shown(at))
		}
	}
	whole(v, path+".video_max_seconds", in.VideoMaxSeconds, min(in.VideoMinSeconds, maxVideoSeconds), maxVideoSeconds)
	switch {
	case vi.Upscales() && in.Video != "required":
		v.wrong(path+".video", "the model enlarges a video; expected video: required, or no upscale_factors")
	case vi.Upscales() && len(vi.Constraints.Durations) > 0:
		v.wrong(path+".upscale_factors",
			"the model enlarges a video, which has its length already; expected constraints without durations")
	case in.Image == "none" && in.EndImage != "none":
		v.wrong(path+".end_image", "the last picture needs the first; expected image: too")
	}
}

func (vi *Video) checkConsents(v *validator, path string) {
	for i, c := range vi.Consents {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !consentName.MatchString(c.Provider) {
			v.wrong(at+".provider", "%s cannot be the name of a provider; expected 1 to 64 lower-case letters, digits, "+
				"_ or -, a letter first", v.shown(at+".provider"))
		}
		if slices.ContainsFunc(vi.Consents[:i], func(other Consent) bool { return other.Provider == c.Provider }) {
			v.wrong(at+".provider", "%s is listed already; expected every provider once", quote(c.Provider))
		}
		if c.Version == "" || len(c.Version) > 64 {
			v.wrong(at+".version", "the version of the terms is missing or too long; expected 1 to 64 bytes")
		}
		if c.PolicyText == "" || len(c.PolicyText) > maxPolicyText {
			v.wrong(at+".policy_text", "what clients are to agree to is missing or too long; expected 1 to %d bytes of text",
				maxPolicyText)
		}
		if !strings.HasPrefix(c.DocsURL, "https://") && !strings.HasPrefix(c.DocsURL, "http://") {
			v.wrong(at+".docs_url", "%s is not a link; expected http:// or https://", v.shown(at+".docs_url"))
		}
		for j, role := range c.FaceMediaRoles {
			if at := fmt.Sprintf("%s.face_media_roles[%d]", at, j); !slices.Contains(VideoMediaRoles, role) {
				v.wrong(at, "%s carries no media; expected %s", v.shown(at), choice(VideoMediaRoles))
			}
		}
	}
}

func (vi *Video) checkTarget(v *validator, path string, of *Model, t *Target, u *Upstream) {
	v.jobTarget(path, of, t, u)
}
