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
	Constraints VideoConstraints `yaml:"constraints"`
	Inputs      VideoInputs      `yaml:"inputs"`
	// Consents are the terms of providers that a client must agree to with each job.
	Consents []Consent `yaml:"consents"`
	// DownloadURL says that what was made is had from a link, which POST /video/queue
	// tells: it is valid for a day and for one full download.
	DownloadURL bool `yaml:"download_url"`
	// Recommend is the id of another video model, which clients are told of when the
	// provider refuses a prompt of theirs.
	Recommend string      `yaml:"recommend"`
	Price     *VideoPrice `yaml:"price"` // required; `price: free` for free models
}

// VideoConstraints are what a model of videos takes (addendum 7.4). Lists that are
// empty mean that the client cannot choose.
type VideoConstraints struct {
	ModelType    string   `yaml:"model_type"`    // text-to-video (default), image-to-video, video
	AspectRatios []string `yaml:"aspect_ratios"` // such as 16:9, in quotes; adaptive, auto
	Resolutions  []string `yaml:"resolutions"`   // such as 720p
	// DefaultResolution is what is made and paid without a resolution; default: the
	// first of resolutions.
	DefaultResolution string   `yaml:"default_resolution"`
	Durations         []string `yaml:"durations"` // such as 5s; auto, "-1", 1 gen
	// AutoSeconds is what a video is paid as that is priced by the second and whose
	// length the client does not say: the longest that the model makes.
	AutoSeconds       int64 `yaml:"auto_seconds"`
	Audio             bool  `yaml:"audio"`
	AudioConfigurable bool  `yaml:"audio_configurable"` // clients may do without it
	PromptCharacters  int64 `yaml:"prompt_characters"`  // prompt_character_limit; default 2500, at most 20000
}

// VideoInputs are what a model of videos is given besides a prompt (addendum 10.1).
type VideoInputs struct {
	// none (default), optional or required.
	Image    string `yaml:"image"` // required where model_type is image-to-video
	EndImage string `yaml:"end_image"`
	Audio    string `yaml:"audio"`
	Video    string `yaml:"video"` // required with upscale_factors

	// How many of each; 0: none.
	ReferenceImages    int `yaml:"reference_images"`    // at most 30
	ReferenceVideos    int `yaml:"reference_videos"`    // at most 10
	ReferenceAudios    int `yaml:"reference_audios"`    // at most 10
	ReferenceDocuments int `yaml:"reference_documents"` // at most 1
	Elements           int `yaml:"elements"`            // at most 4
	Scenes             int `yaml:"scenes"`              // at most 4
	Keyframes          int `yaml:"keyframes"`           // at most 10

	Tasks        []string `yaml:"tasks"`         // omni_reference_task_type: auto, reference, edit, extend
	BitrateModes []string `yaml:"bitrate_modes"` // standard, high
	// UpscaleFactors, of 1, 2 and 4, are those of a model that enlarges a video.
	UpscaleFactors []int64 `yaml:"upscale_factors"`
	// VideoMinSeconds and VideoMaxSeconds bound the video that is given; defaults 1
	// and 60, at most 600.
	VideoMinSeconds int64 `yaml:"video_min_seconds"`
	VideoMaxSeconds int64 `yaml:"video_max_seconds"`
	// DataOnly has videos sent along, as data URLs: what is measured is then what the
	// upstream gets, while the host of a link may show it another one. Default false.
	DataOnly bool `yaml:"data_only"`
}

// Consent is what a client of a model must agree to (addendum 3.4, 10.1).
type Consent struct {
	Provider   string `yaml:"provider"` // the member of `consents` that says so
	Version    string `yaml:"version"`
	PolicyText string `yaml:"policy_text"`
	DocsURL    string `yaml:"docs_url"`
	// FaceMediaRoles are the members whose media must not show faces without it; empty:
	// the agreement is asked for always, else only with one of them.
	FaceMediaRoles []string `yaml:"face_media_roles"`
}

// Upscales says that the model enlarges a video, whose length is the price.
func (v *Video) Upscales() bool { return len(v.Inputs.UpscaleFactors) > 0 }

const (
	defaultVideoPrompt = 2500  // addendum 7.4
	maxVideoPrompt     = 20000 // addendum 10.1
	maxVideoSeconds    = 600
	maxConsents        = 8
	maxPolicyText      = 32 << 10
)

// What addendum 10.1 lets clients write.
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
	videoTypes     = []string{"text-to-video", "image-to-video", "video"}
	videoNeeds     = []string{"none", "optional", "required"}
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

// OneGeneration is the duration of what is sold by the video, whatever its length.
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

var videoKind = kind{"video", "video", Rate{RPM: 40}, newVideo}

func newVideo() Spec {
	return &Video{Constraints: VideoConstraints{ModelType: videoTypes[0], PromptCharacters: defaultVideoPrompt}}
}

// Text is false: what comes out are pictures and sound.
func (v *Video) Text() bool { return false }

// Free says that `price: free` is written.
func (v *Video) Free() bool { return v.Price != nil && v.Price.Free }

func (v *Video) complete(*Model) {
	c, in := &v.Constraints, &v.Inputs
	if c.DefaultResolution == "" && len(c.Resolutions) > 0 {
		c.DefaultResolution = c.Resolutions[0]
	}
	for _, need := range []*string{&in.Image, &in.EndImage, &in.Audio, &in.Video} {
		if *need == "" {
			switch {
			case need == &in.Image && c.ModelType == "image-to-video", need == &in.Video && v.Upscales():
				*need = "required"
			default:
				*need = "none"
			}
		}
	}
	if in.VideoMinSeconds == 0 {
		in.VideoMinSeconds = 1
	}
	if in.VideoMaxSeconds == 0 {
		in.VideoMaxSeconds = 60
	}
}

func (m *Video) check(v *validator, path string, own *Model) {
	m.checkConstraints(v, path+".constraints")
	m.checkInputs(v, path+".inputs")
	m.checkConsents(v, path+".consents")
	m.checkPrice(v, path+".price")
	if m.Recommend == "" {
		return
	}
	at := path + ".recommend"
	i, ok := v.ids[m.Recommend]
	switch {
	case m.Recommend == own.ID:
		v.wrong(at, "the model would recommend itself; expected the id of another video model")
	case !ok || v.c.Models[i].Type != videoKind.name:
		v.wrong(at, "there is no video model %s; expected the id of one of this file", quote(m.Recommend))
	}
}

func (m *Video) checkConstraints(v *validator, path string) {
	c := &m.Constraints
	v.oneOf(path+".model_type", c.ModelType, videoTypes...)
	in := func(list []string) func(string) bool {
		return func(s string) bool { return slices.Contains(list, s) }
	}
	v.choices(path, "aspect_ratios", "", c.AspectRatios, "", in(VideoRatios), "expected "+choice(VideoRatios))
	v.choices(path, "resolutions", "default_resolution", c.Resolutions, c.DefaultResolution, in(VideoResolutions),
		"expected "+choice(VideoResolutions))
	v.choices(path, "durations", "", c.Durations, "", in(VideoDurations),
		"expected 1s to 30s, auto, Auto, \"-1\" or 1 gen")
	whole(v, path+".prompt_characters", c.PromptCharacters, 1, maxVideoPrompt)
	whole(v, path+".auto_seconds", c.AutoSeconds, 0, maxVideoSeconds)
	if c.AudioConfigurable && !c.Audio {
		v.wrong(path+".audio_configurable", "the model makes no sound; expected audio: true beside it")
	}
}

func (m *Video) checkInputs(v *validator, path string) {
	in := &m.Inputs
	for key, need := range map[string]string{"image": in.Image, "end_image": in.EndImage, "audio": in.Audio,
		"video": in.Video} {
		v.oneOf(path+"."+key, need, videoNeeds...)
	}
	for _, n := range []struct {
		key       string
		got, most int
	}{
		{"reference_images", in.ReferenceImages, 30},
		{"reference_videos", in.ReferenceVideos, 10},
		{"reference_audios", in.ReferenceAudios, 10},
		{"reference_documents", in.ReferenceDocuments, 1},
		{"elements", in.Elements, 4},
		{"scenes", in.Scenes, 4},
		{"keyframes", in.Keyframes, 10},
	} {
		whole(v, path+"."+n.key, n.got, 0, n.most)
	}
	v.choices(path, "tasks", "", in.Tasks, "", func(s string) bool { return slices.Contains(VideoTasks, s) },
		"expected "+choice(VideoTasks))
	v.choices(path, "bitrate_modes", "", in.BitrateModes, "",
		func(s string) bool { return slices.Contains(VideoBitrateModes, s) }, "expected "+choice(VideoBitrateModes))
	for i, n := range in.UpscaleFactors {
		if at := fmt.Sprintf("%s.upscale_factors[%d]", path, i); !slices.Contains(upscaleFactors, n) ||
			slices.Contains(in.UpscaleFactors[:i], n) {
			v.wrong(at, "%s is no factor, or listed already; expected 1, 2 or 4, each once", v.shown(at))
		}
	}
	whole(v, path+".video_min_seconds", in.VideoMinSeconds, 1, maxVideoSeconds)
	whole(v, path+".video_max_seconds", in.VideoMaxSeconds, min(in.VideoMinSeconds, maxVideoSeconds), maxVideoSeconds)
	switch {
	case m.Upscales() && in.Video != "required":
		v.wrong(path+".video", "the model enlarges a video; expected video: required, or no upscale_factors")
	case m.Upscales() && len(m.Constraints.Durations) > 0:
		v.wrong(path+".upscale_factors",
			"the model enlarges a video, which has its length already; expected constraints without durations")
	case in.Image == "none" && in.EndImage != "none":
		v.wrong(path+".end_image", "the last picture stands without the first; expected image: beside it")
	}
}

func (m *Video) checkConsents(v *validator, path string) {
	if n := len(m.Consents); n > maxConsents {
		v.wrong(path, "%d consents are listed; expected at most %d", n, maxConsents)
		return
	}
	for i, c := range m.Consents {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !consentName.MatchString(c.Provider) {
			v.wrong(at+".provider", "%s cannot be the name of a provider; expected 1 to 64 lower-case letters, digits, "+
				"_ or -, a letter first", v.shown(at+".provider"))
		}
		if slices.ContainsFunc(m.Consents[:i], func(other Consent) bool { return other.Provider == c.Provider }) {
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

func (m *Video) checkTarget(v *validator, path string, _ *Model, t *Target, u *Upstream) {
	v.films(path, t, u)
}
