package image

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/journal"
	"farebox/billing/replay"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/image"
	"farebox/proxy"
	"farebox/routes"
)

// pictures is one request for pictures on its way: its form, its price and its result
// (interface.md, Images; addendum 8).
type pictures struct {
	owner *Capability
	call  *routes.Call
	view  *view
	form  *imageForm
	job   image.Job
	spec  *config.Image // of the model
	sale  imageSale
	// sources are the input pictures, references those whose style is followed.
	sources, references []source
	masks               []source // at most one
	fetched             int64    // bytes, of Capability.fetched
	// writer is the text model that is to rewrite the prompt, nil for none; rewritten is its
	// answer.
	writer    *providers.Model
	rewritten string
	result    *image.Result
	images    int64       // that were delivered and charged
	carried   atomic.Bool // it has one of Capability.carried
	// compose makes the answer of the result: file, as contentType.
	compose     func() (file proxy.Source, contentType string)
	file        proxy.Source
	contentType string
}

// read reads a request by the rules of its endpoint.
func (ca *Capability) read(c *routes.Call, kind image.Kind) (*pictures, *routes.Error) {
	f, e := readForm(c, c.Rules())
	if e != nil {
		return nil, e
	}
	p := &pictures{owner: ca, call: c, view: c.Own(ca).(*view), form: f,
		job: image.Job{Kind: kind, Count: 1, SafeMode: true}}
	c.Part = p
	return p, nil
}

// Close releases the pictures, links and slots of the request.
func (p *pictures) Close() {
	p.forgetFetched()
	p.uncarry()
	if p.result != nil {
		p.result.Release()
	}
}

// Observe counts the pictures.
func (p *pictures) Observe(time.Duration) {
	if p.call.Settled && p.call.Model.Index < len(p.view.images) {
		p.view.images[p.call.Model.Index].AddInt64(p.images)
	}
}

// Log adds the number of pictures and the charge.
func (p *pictures) Log(e *zerolog.Event) *zerolog.Event {
	if p.call.Settled {
		e = e.Int64("images", p.images).Str("charged_usd", p.call.Charged.String())
	}
	return e
}

// Recycle does nothing: it is not used again.
func (p *pictures) Recycle() {}

// choose resolves the model of a type. Without a name the default one serves the request;
// with fallback also a request for one that is unknown (D34). OpenAI's models draw and edit
// under one name, so that the default one edits for a model that draws.
func (p *pictures) choose(typ, name string, fallback bool) *routes.Error {
	catalog := p.call.Catalog()
	var model *providers.Model
	match := providers.NotFound
	if name != "" {
		model, match = catalog.Resolve([]byte(name), typ)
	}
	edits := match == providers.OtherType && typ == "inpaint" && catalog.Named([]byte(name), "image")
	if name == "" || fallback && (match == providers.NotFound || edits) {
		model, match = catalog.Default(typ), providers.Trait
	}
	if name == "" {
		name = "default"
	}
	if e := p.call.UseModel([]byte(name), typ, model, match, p.form.v.Issues); e != nil {
		return e
	}
	p.spec = model.Config.Spec.(*config.Image)
	p.sale.Price = p.spec.Price
	return nil
}

// limits are the constraints of the model.
func (p *pictures) limits() *config.ImageConstraints {
	return &p.spec.Constraints
}

// unsupported refuses a feature that the model lacks; it counts into the budget of refused
// features.
func (p *pictures) unsupported(id int, what string) *routes.Error {
	return routes.Unsupported(imageShape.Name(id), "Model "+p.call.Model.ID+" does not support "+what+".")
}

// oneOf refuses a value that is not in the model's list.
func (p *pictures) oneOf(id int, value string, options []string) *routes.Error {
	if slices.Contains(options, value) {
		return nil
	}
	name, list := imageShape.Name(id), strings.Join(options, ", ")
	return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: name, Received: routes.Excerpt([]byte(value)),
		Options: options, Message: name + ": model " + p.call.Model.ID + " takes one of " + list + ", not " +
			routes.Excerpt([]byte(value)) + "."})
}

// setPrompt takes the prompt within the model's own limit.
func (p *pictures) setPrompt(text string) *routes.Error {
	p.job.Prompt = text
	if n, most := len([]rune(text)), p.limits().PromptCharacters; int64(n) > most {
		p.form.tooLong(imagePrompt, n, most, " with model "+p.call.Model.ID)
		return routes.Invalid(p.form.v.Issues...)
	}
	return nil
}

// setTier takes resolution and quality, which decide the price.
func (p *pictures) setTier(resolution, quality string) *routes.Error {
	l := p.limits()
	if resolution != "" {
		if len(l.Resolutions) == 0 {
			return p.unsupported(imageResolution, "resolutions")
		}
		if e := p.oneOf(imageResolution, resolution, l.Resolutions); e != nil {
			return e
		}
	}
	if quality != "" {
		if len(l.Qualities) == 0 {
			return p.unsupported(imageQuality, "qualities")
		}
		if e := p.oneOf(imageQuality, quality, l.Qualities); e != nil {
			return e
		}
	}
	p.job.Resolution, p.job.Quality = cmp.Or(resolution, l.DefaultResolution), cmp.Or(quality, l.DefaultQuality)
	p.sale.Resolution, p.sale.Quality = p.job.Resolution, p.job.Quality
	return nil
}

// picturesPatience is how long a request for pictures can take beside its upstreams' time
// (images.timeout): links, a prompt that is rewritten, conversions.
const picturesPatience = time.Minute

// make sells pictures; answer makes the body of them.
func (p *pictures) make(answer func() (body proxy.Source, contentType string)) *routes.Error {
	p.compose = answer
	return p.call.Sell(p, routes.Terms{Patience: p.call.Config().Images.Timeout + picturesPatience})
}

// CarryOut has the pictures made.
func (p *pictures) CarryOut() (relayed bool, _ *routes.Error) {
	defer p.forgetFetched()
	defer p.uncarry()
	if e := p.readInputs(); e != nil {
		return false, e
	}
	if e := p.fetchInputs(); e != nil {
		return false, e
	}
	p.job.ID, p.job.ModelID = p.call.ID[:], p.call.Model.ID
	if e := p.fit(); e != nil {
		return false, e
	}
	if e := p.rewrite(); e != nil {
		return false, e
	}
	p.job.Stay, p.job.Owner = p.carry, p.call.Owner()
	result, failed := p.owner.engine.Do(p.call.Ctx, &p.job, providers.PictureTargets(p.call.Model),
		p.call.Key.Account.Number())
	if failed != nil {
		return false, p.failed(failed)
	}
	p.result, p.call.Attempts, p.call.Tried = result, result.Attempts, result.Tried
	if result.Target != nil {
		p.call.Upstream = result.Target.Upstream
	}
	p.setFlags()
	p.file, p.contentType = p.compose()
	// Delivered pictures are charged before the first byte leaves. A client that goes away while
	// it reads is charged all the same: the pictures were made for it.
	p.images = min(int64(result.Delivered()), p.sale.Images)
	p.call.Sold = routes.FlatBill(p.sale.Lines(p.images), 0)
	return false, nil
}

// carry is asked when the client left while its pictures are being made: they
// are carried to their end, within images.unattended, which customers share. The watcher asks it, from
// its own goroutine.
func (p *pictures) carry() bool {
	if p.carried.Load() {
		return true // its prompt was rewritten without the client already
	}
	owner := p.call.Owner()
	p.owner.carried.Resize(int64(p.owner.gateway.Config().Images.Unattended))
	if !p.owner.carried.Take(owner, 1) {
		return false
	}
	if p.carried.Swap(true) {
		p.owner.carried.Give(owner, 1)
	}
	return true
}

func (p *pictures) uncarry() {
	if p.carried.Swap(false) {
		p.owner.carried.Give(p.call.Owner(), 1)
	}
}

// makeFile is make for endpoints that answer with the picture itself.
func (p *pictures) makeFile() *routes.Error {
	p.job.AsFile = true
	return p.make(p.fileBody)
}

// KeepAnswer keeps the answer, with its headers about the pictures.
func (p *pictures) KeepAnswer() {
	n, kept := &p.view.names, []replay.Header(nil)
	for _, name := range [][]byte{n.blurred, n.violation, n.adultViolation, n.minor, n.enhanced} {
		if value := p.call.Ctx.Response.Header.PeekBytes(name); len(value) > 0 {
			kept = append(kept, replay.Header{Name: string(name), Value: string(value)})
		}
	}
	p.call.KeepSource(p.contentType, p.file, kept...)
}

// Admit opens the hold for all pictures that were asked for, or says why not.
// Its amount is exact: all of it or nothing.
func (p *pictures) Admit(again bool) *routes.Error {
	p.sale.Images, p.sale.Inputs = int64(p.job.Count), int64(len(p.sources))
	return p.call.AdmitCost(again, p.sale.Cost(p.sale.Images), p.sale.Images)
}

// failed is the answer to a job that came to nothing.
func (p *pictures) failed(f *image.Failed) *routes.Error {
	p.call.Attempts, p.call.Tried = f.Attempts, f.Tried
	if f.Target != nil {
		p.call.Upstream = f.Target.Upstream
	}
	if f.Err != nil {
		p.call.Logger().Warn().Err(f.Err).Str("upstream", p.call.Upstream).Bytes("request_id", p.call.ID[:]).
			Msg("no picture was made")
	}
	if f.Cause != proxy.None {
		p.call.Cause = f.Cause.String()
		p.settleDisconnect(f.Attempts > 0, p.rewritten != "")
		return p.call.Unreachable(&proxy.Result{Cause: f.Cause, RetryAfter: f.RetryAfter})
	}
	p.call.Cause = "upstream_status"
	refusal := &f.Failure
	e := &routes.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message,
		RetryAfter: max(refusal.RetryAfter, f.RetryAfter)}
	switch {
	case e.Status == 400:
		e.RequestID = true
	case e.Code == "INFERENCE_FAILED" && p.job.Kind == image.Upscale:
		e.Code = "UPSCALE_FAILED"
	case e.Code == "INFERENCE_FAILED" && p.job.Kind == image.Edit:
		e.Code = "IMAGE_EDIT_ERROR"
	}
	if e.Code == "CONTENT_POLICY_VIOLATION" {
		p.call.Ctx.Response.Header.SetCanonical(p.view.names.violation, []byte("true"))
	}
	return e
}

// setFlags puts the headers about delivered and refused pictures (addendum 3.7).
func (p *pictures) setFlags() {
	h, n, r := &p.call.Ctx.Response.Header, &p.view.names, p.result
	flag := func(name []byte, on bool) {
		value := []byte("false")
		if on {
			value = []byte("true")
		}
		h.SetCanonical(name, value)
	}
	if p.job.Kind == image.Generate && p.job.SafeMode {
		flag(n.blurred, r.Blurred)
	}
	if p.job.Kind == image.Generate || p.job.Kind == image.Edit {
		flag(n.violation, r.Violation)
	}
	flag(n.adultViolation, r.AdultViolation)
	if r.Minor {
		flag(n.minor, true)
	}
	if text := cmp.Or(p.rewritten, r.EnhancedPrompt); text != "" {
		h.SetCanonical(n.enhanced, appendEscapedHeader(nil, text, maxEnhancedHeader))
	}
}

// maxEnhancedHeader bounds the header of a rewritten prompt in bytes: proxies in front of us take
// 4 KiB for all headers of an answer by default, and fail the answer above. It is 2,000
// characters of English, 340 of Chinese; longer text is clipped.
const maxEnhancedHeader = 3 << 10

// appendEscapedHeader appends as much of a text, URL-encoded, as most bytes take.
func appendEscapedHeader(dst []byte, text string, most int) []byte {
	for _, r := range text {
		c := strings.ReplaceAll(url.QueryEscape(string(r)), "+", "%20")
		if len(dst)+len(c) > most {
			break
		}
		dst = append(dst, c...)
	}
	return dst
}

// settleDisconnect settles a request for pictures whose client left and that was
// not carried to its end. Pictures that an upstream was asked for are all made,
// so all are paid. Before that only the rewriting of the prompt can have cost
// anything: its price is paid when the text model was asked for it.
func (p *pictures) settleDisconnect(asked, worded bool) {
	if !p.call.Left() || p.carried.Load() || !asked && !worded {
		return
	}
	p.call.CutKept()
	sold := p.sale.Rewriting()
	if asked {
		p.images, sold = p.sale.Images, p.sale.Lines(p.sale.Images)
	}
	p.call.Sold = routes.FlatBill(sold, journal.FlagAborted)
	p.call.Settle()
}
