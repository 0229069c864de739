package queue

import "strconv"

// Order is one job in our own terms, as routes has checked it: ranges hold, and options
// that the model does not support are unset. It is kept with the job as JSON until the
// upstream has it. Members that the client omitted are zero, unless they are pointers.
type Order struct {
	Kind   string `json:"kind"` // config.JobKind.Name
	Prompt string `json:"prompt,omitempty"`

	// Music (addendum 9.6).
	Lyrics          string   `json:"lyrics,omitempty"`
	LyricsOptimizer bool     `json:"lyrics_optimizer,omitempty"`
	Seconds         int64    `json:"seconds,omitempty"` // that are ordered and paid; 0: the model decides
	Instrumental    bool     `json:"instrumental,omitempty"`
	Loop            bool     `json:"loop,omitempty"`
	Voice           string   `json:"voice,omitempty"`
	Language        string   `json:"language,omitempty"`
	Speed           *float64 `json:"speed,omitempty"`
	Format          string   `json:"format,omitempty"` // mp3, wav, flac

	// Video (addendum 10.1). Links were checked and are those of the client or of its
	// uploads, as an upstream may fetch them.
	NegativePrompt string    `json:"negative_prompt,omitempty"`
	Duration       string    `json:"duration,omitempty"` // as ordered: 5s, auto, 1 gen
	AspectRatio    string    `json:"aspect_ratio,omitempty"`
	Resolution     string    `json:"resolution,omitempty"`
	UpscaleFactor  int       `json:"upscale_factor,omitempty"`
	Audio          *bool     `json:"audio,omitempty"`
	BitrateMode    string    `json:"bitrate_mode,omitempty"`
	Image          string    `json:"image,omitempty"`
	EndImage       string    `json:"end_image,omitempty"`
	Sound          string    `json:"sound,omitempty"`   // audio_url
	SourceVideo    string    `json:"footage,omitempty"` // video_url
	Images         []string  `json:"images,omitempty"`  // reference_image_urls
	Videos         []string  `json:"videos,omitempty"`
	Sounds         []string  `json:"sounds,omitempty"`
	Documents      []string  `json:"documents,omitempty"`
	Elements       []Element `json:"elements,omitempty"`
	Scenes         []string  `json:"scenes,omitempty"`
	Keyframes      []Frame   `json:"keyframes,omitempty"`
	Reference      string    `json:"reference,omitempty"` // omni_reference_task_type
	// Consents are the names of the providers whose terms the client has agreed to.
	Consents []string `json:"consents,omitempty"`
}

// Element is an object or person to show in a video.
type Element struct {
	Front  string   `json:"front,omitempty"`
	Others []string `json:"others,omitempty"`
	Video  string   `json:"video,omitempty"`
}

// Frame is a picture for a frame of a video.
type Frame struct {
	Image string `json:"image"`
	Index int    `json:"index"`
}

// Links gives each link or data URL of an order, with the member of a client's body that it
// is in, to be read or replaced.
func (o *Order) Links(each func(member string, link *string)) {
	one := func(member string, link *string) {
		if *link != "" {
			each(member, link)
		}
	}
	list := func(member string, links []string) {
		for i := range links {
			one(member+"."+strconv.Itoa(i), &links[i])
		}
	}
	one("image_url", &o.Image)
	one("end_image_url", &o.EndImage)
	one("audio_url", &o.Sound)
	one("video_url", &o.SourceVideo)
	list("reference_image_urls", o.Images)
	list("reference_video_urls", o.Videos)
	list("reference_audio_urls", o.Sounds)
	list("reference_document_urls", o.Documents)
	list("scene_image_urls", o.Scenes)
	for i := range o.Elements {
		e, at := &o.Elements[i], "elements."+strconv.Itoa(i)
		one(at+".frontal_image_url", &e.Front)
		list(at+".reference_image_urls", e.Others)
		one(at+".video_url", &e.Video)
	}
	for i := range o.Keyframes {
		one("keyframes."+strconv.Itoa(i)+".image_url", &o.Keyframes[i].Image)
	}
}
