package jobs

import (
	"math"
	"strconv"
	"time"

	"farebox/config"
	"farebox/providers/video"
	"farebox/routes"
)

// quoteVideo is the answer of POST /video/quote (addendum 10.2): the price of a job with these
// choices. Members that do not change the price are not asked for.
func (ca *Capability) quoteVideo(c *routes.Call, body *form) ([]byte, *routes.Error) {
	f := videoOf(body)
	ch, e := f.choice()
	if e != nil {
		return nil, e
	}
	sourceVideo, e := ca.quotedSource(c, f)
	if e != nil {
		return nil, e
	}
	clips := time.Duration(0)
	if f.has(videoReferenceSeconds) {
		if f.model.Inputs.ReferenceVideos == 0 {
			return nil, f.unsupported(videoReferenceSeconds, "reference videos")
		}
		seconds, err := strconv.ParseFloat(routes.ViewString(f.Member(-1, videoReferenceSeconds).Raw(f.Body)), 64)
		if err == nil {
			clips = time.Duration(math.Ceil(seconds * float64(time.Second)))
		}
	}
	b := videoBillOf(f.model, ch, sourceVideo, clips)
	lines := b.lines()
	return append(config.AppendDecimal([]byte(`{"quote":`), int64(lines.Cost()), 9), '}'), nil
}

// tallest stands for the height of a video that is not known: the quote is the dearest.
const tallest = 1 << 20

// quotedSource is the video that a model enlarges: the one of the link, or one of the
// duration and the height that the client names.
func (ca *Capability) quotedSource(c *routes.Call, f *videoForm) (*video.Media, *routes.Error) {
	if !f.model.Upscales() {
		if f.has(videoSource) && f.model.Inputs.Video == "none" {
			return nil, f.unsupported(videoSource, "a video")
		}
		return nil, nil
	}
	if text := f.words(videoSource); text != "" {
		if c.Key == nil { // no link is fetched without a key
			return nil, &routes.Error{Status: 401, Code: "AUTHENTICATION_FAILED", Uncounted: true, Message: "video_url: " +
				"measuring a video needs an API key; give duration and input_height instead."}
		}
		list := []input{{role: sourceVideo, path: "video_url", text: text}}
		if e := ca.measure(c, f, list); e != nil {
			return nil, e
		}
		return f.enlarged(list), nil
	}
	length := config.VideoSeconds(f.words(videoDuration))
	if length == 0 {
		return nil, routes.Invalid(routes.Issue{Code: "invalid_type", Path: "video_url", Expected: "string",
			Received: "undefined", Message: "video_url: is required by model " + f.id +
				"; its price depends on the length of the video. A duration in seconds also works."})
	}
	m := &video.Media{Length: time.Duration(length) * time.Second, Height: tallest}
	if h := f.Integer(videoInputHeight); h > 0 {
		m.Height = int(min(h, tallest))
	}
	return m, nil
}

// enlarged is the video among inputs, with its height, or one that is not known.
func (f *videoForm) enlarged(list []input) *video.Media {
	for i := range list {
		if list[i].role != sourceVideo {
			continue
		}
		m := list[i].media
		if m.Height == 0 {
			m.Height = tallest
		}
		return &m
	}
	return &video.Media{}
}
