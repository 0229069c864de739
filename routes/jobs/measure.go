package jobs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"farebox/billing"
	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/video"
	"farebox/proxy"
	"farebox/routes"
)

const (
	// probeLimit is how long the links of one request may take together, and probesAtOnce
	// how many of them are followed at a time.
	probeLimit   = 30 * time.Second
	probesAtOnce = 4

	// Of clips and sounds (addendum 10.1).
	minClip     = 2 * time.Second
	maxClipTime = 15 * time.Second
	maxTrack    = 30 * time.Second
	// slack is the rounding of containers.
	slack = 100 * time.Millisecond
)

// measure looks into all inputs: where links lead, and how long and large sound and
// films are.
func (ca *Capability) measure(c *routes.Call, f *videoForm, list []input) *routes.Error {
	links := 0
	for i := range list {
		if list[i].isLink() {
			if f.model.Inputs.DataOnly && list[i].isVideo() {
				return list[i].wrong("model " + f.id + " takes videos as data URLs alone.")
			}
			links++
			continue
		}
		if e := list[i].readData(); e != nil {
			return e
		}
	}
	if links > 0 {
		if d := c.Count(byProbes, 1); d.Code != billing.Admitted {
			return c.Overrun(byProbes, &d, "requests with links")
		}
		if e := ca.follow(c, list); e != nil {
			return e
		}
	}
	return f.checkLengths(list)
}

// follow looks into links, several at a time. The client gets the error of the first bad link of
// the body.
func (ca *Capability) follow(c *routes.Call, list []input) *routes.Error {
	wrong := make([]*routes.Error, len(list))
	cause, err := c.Await(probeLimit, func(ctx context.Context) error {
		fair.Each(len(list), probesAtOnce, func(i int) {
			defer func() {
				if v := recover(); v != nil {
					ca.gateway.NotePanic("a probe of a link", v)
					wrong[i] = list[i].judge(video.ErrFormat)
				}
			}()
			if list[i].isLink() {
				wrong[i] = list[i].follow(ctx, ca.prober)
			}
		})
		return ctx.Err()
	})
	for _, e := range wrong {
		if e != nil && cause == proxy.None {
			return e
		}
	}
	switch {
	case cause == proxy.TotalTimeout:
		return routes.Invalid(routes.Issue{Code: "custom", Path: "",
			Message: (&fetch.Error{Reason: fetch.TooSlow}).Text()})
	case cause != proxy.None:
		c.Cause = cause.String()
		return c.Unreachable(&proxy.Result{Cause: cause})
	case err != nil:
		return routes.Invalid(routes.Issue{Code: "custom", Message: "The links could not be followed."})
	}
	return nil
}

// follow looks into one link: its upstream is given the address where its redirects end, so that
// no redirect leads it elsewhere. Pictures and documents are not looked at.
func (i *input) follow(ctx context.Context, p *video.Prober) *routes.Error {
	if len(i.text) > maxLink || !hasScheme(i.text, "http://") && !hasScheme(i.text, "https://") {
		return i.wrong("must be a link that begins with https:// or http://, or a data URL.")
	}
	final, err := p.Final(ctx, i.text)
	if err != nil {
		return i.unfetched(err)
	}
	if i.final = final; i.role == still || i.role == document {
		return nil
	}
	most := int64(maxClip)
	switch i.role {
	case sound, voice:
		most = maxSound
	case sourceVideo:
		most = 0
	}
	m, err := p.Probe(ctx, final, most)
	i.media = m
	if errors.Is(err, video.ErrSize) && most > 0 {
		return i.tooLarge(most)
	}
	return i.judge(err)
}

// unfetched is the answer to a link that leads nowhere, or to a forbidden address.
func (i *input) unfetched(err error) *routes.Error {
	var refusal *fetch.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refusal):
		refusal = &fetch.Error{Reason: fetch.Unreachable}
	case refusal.Reason == fetch.Busy:
		return &routes.Error{Status: 503, RetryAfter: routes.RetrySoon,
			Message: "Too many links are being followed right now; nothing was charged. Please retry."}
	}
	return i.wrong(refusal.Text())
}

// judge turns the outcome of a measurement into a refusal.
func (i *input) judge(err error) *routes.Error {
	var refusal *fetch.Error
	switch isVideo := i.isVideo(); {
	case errors.As(err, &refusal):
		return i.unfetched(err)
	case isVideo && (err != nil || !i.media.Film || i.media.Format != "mp4" && i.media.Format != "webm"):
		e := i.wrong("must be an MP4, QuickTime or WebM video with a readable length.")
		e.Code = "INVALID_VIDEO_FORMAT"
		return e
	case !isVideo && (err != nil || i.media.Film || i.media.Format != "wav" && i.media.Format != "mp3"):
		return i.wrong("must be sound in WAV or MP3.")
	}
	return nil
}

// checkLengths holds the lengths to the model's limits.
func (f *videoForm) checkLengths(list []input) *routes.Error {
	var clips, voices time.Duration
	for i := range list {
		in := &list[i]
		least, most := minClip, maxClipTime
		switch in.role {
		case sourceVideo:
			least = time.Duration(f.model.Inputs.VideoMinSeconds) * time.Second
			most = time.Duration(f.model.Inputs.VideoMaxSeconds) * time.Second
		case clip:
			clips += in.media.Length
		case voice:
			voices += in.media.Length
		case sound:
			least, most = 0, maxTrack
		case element:
		default:
			continue
		}
		switch n := in.media.Length; {
		case n > most+slack:
			return in.length("TOO_LONG", "is "+inSeconds(n)+" long; it may be "+inSeconds(most)+".")
		case n < least-slack:
			return in.length("TOO_SHORT", "is "+inSeconds(n)+" long; it must be "+inSeconds(least)+".")
		}
	}
	for _, sum := range []struct {
		of   time.Duration
		path string
	}{{clips, "reference_video_urls"}, {voices, "reference_audio_urls"}} {
		if sum.of > maxClipTime+slack {
			in := input{path: sum.path, role: clip}
			return in.length("TOO_LONG", "are "+inSeconds(sum.of)+" long together; they may be "+
				inSeconds(maxClipTime)+".")
		}
	}
	return nil
}

// length is the answer to media that are too long or too short.
func (i *input) length(what, text string) *routes.Error {
	e := i.wrong(text)
	if i.role != sound && i.role != voice {
		e.Status, e.Code = 422, "VIDEO_DURATION_"+what
	}
	return e
}

func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', -1, 64) + " s"
}

// clipTime is how long the reference videos are together.
func clipTime(list []input) (d time.Duration) {
	for i := range list {
		if list[i].role == clip {
			d += list[i].media.Length
		}
	}
	return d
}
