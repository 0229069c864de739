package audio

import (
	"context"
	"errors"
	"time"

	"farebox/billing"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/video"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Speech of a video on the web (addendum 10.4): its file is fetched here, through the guard of
// all links of clients, and sold like any other sound.

const (
	// filmLimit is how long a page and the file of its video may take together, and
	// videosAtOnce how many files of them, of maxSound each, are in memory at once.
	// videosWaiting more may wait, filmWait each.
	filmLimit     = 60 * time.Second
	videosAtOnce  = 8
	videosWaiting = 128
	filmWait      = filmLimit + listenLimit
	maxFilmLink   = 4 << 10
)

// videoTranscription is a link's request: the additions to a transcription.
type videoTranscription struct {
	from  video.Fetcher
	turns *fair.Turns
}

// transcribesVideos says that a config has a model for videos on the web.
func transcribesVideos(cfg *config.Config) bool { return cfg.VideoTranscriber() != "" }

// videoTranscriptions is how many an account may have fetched, as with pages (addendum 3.6).
var videoTranscriptions = &routes.RateClass{Name: "video-transcriptions", Rate: func(cfg *config.Config) (*config.Rate, bool) {
	return &config.Rate{RPM: 20}, transcribesVideos(cfg)
}}

const (
	filmURL = iota
	filmFormat
)

var videoRules = routes.NewRulebook(scan.NewShape(scan.Member{Name: "url"}, scan.Member{Name: "response_format"}),
	map[string]*routes.Rule{
		"url": {Kinds: routes.String, Required: true, NonEmpty: true, Length: maxFilmLink,
			Format: "http or https URL"},
		"response_format": {Kinds: routes.String, Enum: []string{"json", "text"}, Default: "json"},
	})

// videoRows is the endpoint; it exists only with a model for it.
func videoRows(ca *Capability) []routes.Row {
	return []routes.Row{{
		Method: "POST", Path: "/video/transcriptions", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody,
		Limit: routes.SmallBody, Rate: routes.ByModel, Counts: []*routes.RateClass{videoTranscriptions},
		Operation: "transcription", Rules: routes.Always(videoRules), Offered: transcribesVideos, Serve: ca.serveVideo,
	}}
}

// serveVideo answers POST /video/transcriptions.
func (ca *Capability) serveVideo(c *routes.Call) *routes.Error {
	t := &transcription{owner: ca, call: c}
	book := c.Rules()
	if e := c.ReadJSON(book.Root); e != nil {
		return e
	}
	t.form.v = routes.Validator{Body: c.Body, Doc: &c.Doc, Book: book}
	t.form.v.CheckAll()
	t.form.model, t.form.format = c.Config().VideoTranscriber(), "json"
	if e := t.choose(); e != nil {
		return e
	}
	if t.form.v.Words(-1, filmFormat) == "text" {
		t.form.format = "text"
	}
	t.link = t.form.v.Words(-1, filmURL)
	if e := t.form.gate(&t.hearing, c.Model.ID, &t.spec.Capabilities); e != nil {
		return e
	}
	return t.sell(filmWait + filmLimit + listenLimit + listenPatience)
}

// fetch has the file there, and measures it.
func (t *transcription) fetch() *routes.Error {
	c := t.call
	if d := c.Count(videoTranscriptions, 1); d.Code != billing.Admitted {
		return c.Overrun(videoTranscriptions, &d, c.Row.Path)
	}
	var cause proxy.Cause
	t.place, t.seated, cause = c.TakeTurn(t.owner.videos.turns, filmWait)
	switch {
	case !t.seated && cause == proxy.None:
		return tooManyVideos()
	case !t.seated:
		c.Cause = cause.String()
		return c.Unreachable(&proxy.Result{Cause: cause})
	}
	var file []byte
	cause, err := c.Await(filmLimit, func(ctx context.Context) (err error) {
		file, err = video.Find(ctx, t.owner.videos.from, t.link, maxSound)
		return err
	})
	var refusal *fetch.Error
	switch {
	case cause == proxy.TotalTimeout:
		return t.unheard((&fetch.Error{Reason: fetch.TooSlow}).Text())
	case cause != proxy.None:
		c.Cause = cause.String()
		return c.Unreachable(&proxy.Result{Cause: cause})
	case errors.As(err, &refusal) && refusal.Reason == fetch.Busy:
		return tooManyVideos()
	case errors.As(err, &refusal):
		return t.unheard(refusal.Text())
	case errors.Is(err, video.ErrNoFilm):
		return t.unheard("The page names no video file that could be fetched.")
	case err != nil:
		return t.unheard("The video could not be fetched.")
	}
	t.form.file = file
	return t.measure()
}

func tooManyVideos() *routes.Error {
	return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: routes.OverloadRetry,
		Message: "Too many videos are being transcribed at the moment; please retry."}
}

// releasePlace gives the place of a file back.
func (t *transcription) releasePlace() {
	if t.seated {
		t.seated = false
		t.place.Done()
	}
}

// appendFilmed is {transcript, lang} (addendum 10.4).
func (t *transcription) appendFilmed(b []byte) []byte {
	b = jsontext.Object(append(b, '{')).Text("transcript", t.heard.Text)
	if t.heard.Language != "" {
		b = jsontext.Object(b).Text("lang", t.heard.Language)
	}
	return append(b, '}')
}
