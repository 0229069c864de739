package jobs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/config"
	"farebox/providers/video"
	"farebox/proxy/scan"
	"farebox/routes"
)

// choice holds the client's choices that decide about the price.
type choice struct {
	Duration, Resolution, Ratio string // empty: the model has none to choose from
	Audio                       bool
	Factor                      int64 // of a model that enlarges
}

// choice reads it, within the options of the model.
func (f *videoForm) choice() (ch choice, e *routes.Error) {
	c := &f.model.Constraints
	if ch.Resolution, e = f.oneOf(videoResolution, c.Resolutions, "resolutions"); e != nil {
		return ch, e
	}
	ch.Resolution = cmp.Or(ch.Resolution, c.DefaultResolution)
	if ch.Ratio, e = f.oneOf(videoRatio, c.AspectRatios, "aspect ratios"); e != nil {
		return ch, e
	}
	// A model without durations decides by itself, whatever the client writes there, since it
	// must write something (addendum 10.1).
	if len(c.Durations) > 0 {
		if ch.Duration, e = f.oneOf(videoDuration, c.Durations, "durations"); e != nil {
			return ch, e
		}
		if ch.Duration == "" {
			return ch, routes.Invalid(routes.Issue{Code: "invalid_type", Path: "duration", Expected: "string",
				Received: "undefined", Message: "duration: is required; model " + f.id + " takes one of " +
					strings.Join(c.Durations, ", ") + "."})
		}
	}
	if ch.Audio = c.Audio; f.has(videoAudio) {
		if !c.AudioConfigurable {
			return ch, f.unsupported(videoAudio, "the choice of sound")
		}
		ch.Audio = f.Member(-1, videoAudio).Kind == scan.True
	}
	return ch, f.factor(&ch)
}

// factor reads how much a video is to be enlarged: 2 without a word.
func (f *videoForm) factor(ch *choice) *routes.Error {
	factors := f.model.Inputs.UpscaleFactors
	given := f.Integer(videoFactor)
	switch {
	case len(factors) == 0 && f.has(videoFactor):
		return f.unsupported(videoFactor, "enlarging")
	case len(factors) == 0:
		return nil
	case given == 0 && slices.Contains(factors, 2):
		ch.Factor = 2
	case given == 0:
		ch.Factor = factors[0]
	case slices.Contains(factors, given):
		ch.Factor = given
	default:
		list := make([]string, len(factors))
		for i, n := range factors {
			list[i] = strconv.FormatInt(n, 10)
		}
		text := strings.Join(list, ", ")
		return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "upscale_factor", Options: list,
			Received: strconv.FormatInt(given, 10), Message: "upscale_factor: model " + f.id + " takes one of " + text +
				", not " + strconv.FormatInt(given, 10) + "."})
	}
	return nil
}

// videoBill holds the billed units of a job (addendum 19.2).
type videoBill struct {
	Whole     bool // for the price of one, not of its seconds
	Rate      config.Each
	Seconds   int64
	Reference config.Each // of a second of the reference videos
	Clips     int64       // seconds of them
}

// videoBillOf prices a choice. sourceVideo is the video that is enlarged, clips how long the
// reference videos are together.
func videoBillOf(of *config.Video, ch choice, sourceVideo *video.Media, clips time.Duration) (b videoBill) {
	p := of.Price
	switch {
	case of.Upscales():
		b.Seconds = seconds(sourceVideo.Length)
		b.Rate = p.Enlarging(int64(sourceVideo.Height)*ch.Factor, sourceVideo.FPS > fastFrames)
	default:
		b.Whole, b.Seconds = p.Whole(ch.Duration), of.Constraints.Seconds(ch.Duration)
		b.Rate, _ = p.Rate(ch.Resolution, ch.Duration, ch.Audio)
	}
	if p.ReferenceSecond != nil {
		b.Reference, b.Clips = *p.ReferenceSecond, seconds(clips)
	}
	if p.Free {
		b.Rate, b.Reference = 0, 0
	}
	return b
}

// fastFrames is how many pictures a second a video may have at the usual price.
const fastFrames = 48

// seconds are those that have begun.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// lines are the charged lines.
func (b *videoBill) lines() (l money.Lines) {
	if b.Clips > 0 && b.Reference > 0 {
		l.Add(money.ReferenceSeconds, b.Clips, money.Pico(b.Reference))
	}
	if b.Whole || b.Seconds == 0 {
		l.Add(money.Videos, 1, money.Pico(b.Rate))
	} else {
		l.Add(money.VideoSeconds, b.Seconds, money.Pico(b.Rate))
	}
	return l
}
