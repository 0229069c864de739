package jobs

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/providers/image/picture"
	"farebox/providers/queue"
	"farebox/providers/video"
	"farebox/routes"
)

// inputRole is the use of a piece of media, which decides its allowed types.
type inputRole uint8

const (
	still       inputRole = iota // a picture
	sound                        // audio_url
	sourceVideo                  // video_url
	clip                         // a reference video
	voice                        // a reference sound
	element                      // a video of an element
	document
)

// input is one piece of media of a body: a link, or a data URL.
type input struct {
	role inputRole
	path string
	text string
	// Where its redirects end, of a link.
	final string
	// The measured length and type, of sound and films.
	media video.Media
}

// isLink says that it is to be fetched; else it is a data URL.
func (i *input) isLink() bool { return !hasScheme(i.text, "data:") }

// isVideo says that it is to be a video.
func (i *input) isVideo() bool { return i.role == sourceVideo || i.role == clip || i.role == element }

func hasScheme(text, scheme string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme)
}

const (
	maxLink     = 4 << 10
	maxSound    = 15 << 20 // addendum 10.1
	maxClip     = 50 << 20
	maxDocument = 100 << 20
)

// inputs are all media that the model gets, in the order of the body's members, and puts them
// into the order. Media that the model does not take are refused.
func (f *videoForm) inputs(o *queue.Order) (list []input, e *routes.Error) {
	in := &f.model.Inputs
	for _, m := range []struct {
		id   int
		need string
		role inputRole
		to   *string
		what string
	}{
		{videoImage, in.Image, still, &o.Image, "an image"},
		{videoEndImage, in.EndImage, still, &o.EndImage, "an end image"},
		{videoSound, in.Audio, sound, &o.Sound, "a sound track"},
		{videoSource, in.Video, sourceVideo, &o.SourceVideo, "a video"},
	} {
		text := f.words(m.id)
		switch name := videoShape.Name(m.id); {
		case text == "" && m.need == "required":
			return nil, routes.Invalid(routes.Issue{Code: "invalid_type", Path: name, Expected: "string",
				Received: "undefined", Message: name + ": is required by model " + f.id + ": a URL or data URL."})
		case text == "":
		case m.need == "none":
			return nil, f.unsupported(m.id, m.what)
		default:
			*m.to = text
			list = append(list, input{role: m.role, path: name, text: text})
		}
	}
	if o.EndImage != "" && o.Image == "" {
		return nil, routes.Invalid(routes.Issue{Code: "custom", Path: "end_image_url",
			Message: "end_image_url: needs image_url."})
	}
	for _, m := range []struct {
		id   int
		most int
		role inputRole
		to   *[]string
		what string
	}{
		{videoImages, in.ReferenceImages, still, &o.Images, "reference images"},
		{videoVideos, in.ReferenceVideos, clip, &o.Videos, "reference videos"},
		{videoSounds, in.ReferenceAudios, voice, &o.Sounds, "reference sounds"},
		{videoDocuments, in.ReferenceDocuments, document, &o.Documents, "reference documents"},
		{videoScenes, in.Scenes, still, &o.Scenes, "scene images"},
	} {
		links := f.list(m.id).Array()
		if e := f.atMost(m.id, len(links), m.most, m.what); e != nil {
			return nil, e
		}
		for i, link := range links {
			*m.to = append(*m.to, link.Str)
			list = append(list, input{role: m.role, path: videoShape.Name(m.id) + "." + strconv.Itoa(i), text: link.Str})
		}
	}
	if len(o.Sounds) > 0 && len(o.Images)+len(o.Videos) == 0 && o.Image == "" && o.SourceVideo == "" {
		return nil, routes.Invalid(routes.Issue{Code: "custom", Path: "reference_audio_urls",
			Message: "reference_audio_urls: needs an image or a video."})
	}
	return f.parts(o, list)
}

func (f *videoForm) atMost(id, n, most int, what string) *routes.Error {
	switch name := videoShape.Name(id); {
	case n > 0 && most == 0:
		return f.unsupported(id, what)
	case n > most:
		limit := strconv.Itoa(most)
		return routes.Invalid(routes.Issue{Code: "too_big", Path: name, Maximum: limit, Message: name +
			": must have at most " + limit + " elements for model " + f.id + ", has " + strconv.Itoa(n) + "."})
	}
	return nil
}

// parts adds the media of elements and keyframes.
func (f *videoForm) parts(o *queue.Order, list []input) ([]input, *routes.Error) {
	elements, frames := f.list(videoElements).Array(), f.list(videoKeyframes).Array()
	if e := f.atMost(videoElements, len(elements), f.model.Inputs.Elements, "elements"); e != nil {
		return nil, e
	}
	if e := f.atMost(videoKeyframes, len(frames), f.model.Inputs.Keyframes, "keyframes"); e != nil {
		return nil, e
	}
	for i, part := range elements {
		path := "elements." + strconv.Itoa(i)
		one := queue.Element{Front: part.Get("frontal_image_url").Str, Video: part.Get("video_url").Str}
		if one.Front != "" {
			list = append(list, input{role: still, path: path + ".frontal_image_url", text: one.Front})
		}
		for j, link := range part.Get("reference_image_urls").Array() {
			one.Others = append(one.Others, link.Str)
			list = append(list, input{role: still, path: path + ".reference_image_urls." + strconv.Itoa(j), text: link.Str})
		}
		if one.Video != "" {
			list = append(list, input{role: element, path: path + ".video_url", text: one.Video})
		}
		if one.Front == "" && one.Video == "" && len(one.Others) == 0 {
			return nil, routes.Invalid(routes.Issue{Code: "custom", Path: path,
				Message: path + ": needs frontal_image_url, reference_image_urls or video_url."})
		}
		o.Elements = append(o.Elements, one)
	}
	return f.keyframes(o, frames, list)
}

// keyframes are pictures at moments of the video, each moment once.
func (f *videoForm) keyframes(o *queue.Order, frames []gjson.Result, list []input) ([]input, *routes.Error) {
	last := f.model.Constraints.Seconds(o.Duration) * frameRate
	seen := map[int64]bool{}
	for i, part := range frames {
		path, at := "keyframes."+strconv.Itoa(i), int64(part.Get("frame_index").Num)
		switch at2 := path + ".frame_index"; {
		case seen[at]:
			return nil, routes.Invalid(routes.Issue{Code: "custom", Path: at2,
				Message: at2 + ": " + strconv.FormatInt(at, 10) + " is given twice."})
		case last > 0 && at > last:
			limit := strconv.FormatInt(last, 10)
			return nil, routes.Invalid(routes.Issue{Code: "too_big", Path: at2, Maximum: limit, Message: at2 +
				": must be at most " + limit + ", the last of the video at 24 a second, is " + strconv.FormatInt(at, 10) + "."})
		}
		seen[at] = true
		link := part.Get("image_url").Str
		o.Keyframes = append(o.Keyframes, queue.Frame{Image: link, Index: int(at)})
		list = append(list, input{role: still, path: path + ".image_url", text: link})
	}
	return list, nil
}

// readData looks into a data URL, whose content is what counts: the type that it names
// is not asked.
func (i *input) readData() *routes.Error {
	text := i.text
	head, coded, ok := strings.Cut(text, ",")
	if !ok || !strings.HasSuffix(strings.ToLower(head), ";base64") {
		return i.wrong("must be a data URL in base64, or a link.")
	}
	var most int64
	switch i.role {
	case still:
		most = picture.MaxSize - 1
	case sound, voice:
		most = maxSound
	case document:
		most = maxDocument
	default:
		most = maxClip
	}
	if int64(base64.RawStdEncoding.DecodedLen(len(coded))) > most+2 {
		return i.tooLarge(most)
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	switch {
	case err != nil:
		return i.wrong("is not base64.")
	case i.role == document:
		return nil
	case i.role != still:
		i.media, err = video.Read(raw)
		return i.judge(err)
	case picture.Sniff(raw) == picture.Unknown || picture.Sniff(raw) == picture.GIF:
		return i.wrong("is not a PNG, JPEG or WebP.")
	}
	return nil
}

func (i *input) wrong(text string) *routes.Error {
	return routes.Invalid(routes.Issue{Code: "custom", Path: i.path, Message: i.path + ": " + text})
}

func (i *input) tooLarge(most int64) *routes.Error {
	e := i.wrong("is too large: it may have " + strconv.FormatInt(most>>20, 10) + " MB.")
	e.Status, e.Code = 413, "PAYLOAD_TOO_LARGE"
	return e
}
