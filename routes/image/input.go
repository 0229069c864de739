package image

import (
	"context"
	"errors"
	"time"

	"farebox/providers/fetch"
	"farebox/providers/image"
	"farebox/providers/image/picture"
	"farebox/proxy"
	"farebox/routes"
)

// fetchLimit is how long the links of one request may take together.
const fetchLimit = 30 * time.Second

// readInputs reads the headers of the pictures that came along, with the hold open.
func (p *pictures) readInputs() *routes.Error {
	for i := range p.sources {
		if p.sources[i].link() != "" {
			p.job.Inputs = append(p.job.Inputs, image.Input{})
			continue
		}
		in, e := p.sources[i].takePicture()
		if e != nil {
			return e
		}
		p.job.Inputs = append(p.job.Inputs, in)
	}
	for i := range p.masks {
		in, e := p.masks[i].takePicture()
		if e != nil {
			return e
		}
		p.job.Mask = &in
	}
	for i := range p.references {
		if p.references[i].link() != "" {
			continue
		}
		in, e := p.references[i].takePicture()
		if e != nil {
			return e
		}
		if e := p.reference(i, in); e != nil {
			return e
		}
	}
	return nil
}

func (p *pictures) reference(i int, in image.Input) *routes.Error {
	if in.Size() >= maxReferenceSize {
		return refused(p.references[i].path, &picture.Refusal{Status: 422, Code: "IMAGE_TOO_LARGE",
			Text: "The image is too large: a style reference must have less than 8 MB."})
	}
	p.job.References[i].Input = in
	return nil
}

// fetchInputs gets the pictures that are links, with the hold open: nobody has
// us fetch for nothing.
func (p *pictures) fetchInputs() *routes.Error {
	ends := time.Now().Add(fetchLimit)
	for i := range p.sources {
		in, e := p.fetch(&p.sources[i], ends)
		if e != nil {
			return e
		}
		if in != nil {
			p.job.Inputs[i] = *in
		}
	}
	for i := range p.references {
		in, e := p.fetch(&p.references[i], ends)
		if e != nil {
			return e
		}
		if in == nil {
			continue
		}
		if e := p.reference(i, *in); e != nil {
			return e
		}
	}
	return nil
}

// fetch gets the picture behind a link; nil for a source that is none.
func (p *pictures) fetch(s *source, ends time.Time) (*image.Input, *routes.Error) {
	link := s.link()
	if link == "" {
		return nil, nil
	}
	var file []byte
	cause, err := p.call.Await(max(time.Millisecond, time.Until(ends)),
		func(ctx context.Context) (err error) {
			file, err = p.owner.fetcher.Get(ctx, link, picture.MaxSize-1)
			return err
		})
	switch {
	case cause == proxy.TotalTimeout:
		return nil, unfetched(s.path, &fetch.Error{Reason: fetch.TooSlow})
	case cause != proxy.None:
		p.call.Cause = cause.String()
		return nil, p.call.Unreachable(&proxy.Result{Cause: cause})
	case err != nil:
		return nil, unfetched(s.path, err)
	}
	size := int64(cap(file))
	p.owner.fetched.Resize(int64(p.call.Config().Images.Memory))
	if !p.owner.fetched.Grow(p.call.Owner(), p.fetched, size) {
		return nil, &routes.Error{Status: 503, Code: "MODEL_AT_CAPACITY",
			Message:    "The service is holding as many fetched pictures as it may right now; please retry.",
			RetryAfter: 5 * time.Second}
	}
	p.fetched += size
	in, err := image.ReadRaw(file)
	if err != nil {
		return nil, refused(s.path, err)
	}
	return &in, nil
}

// forgetFetched gives back the room of pictures that were fetched.
func (p *pictures) forgetFetched() {
	p.owner.fetched.Give(p.call.Owner(), p.fetched)
	p.fetched = 0
}

// unfetched is the answer to a link that leads to no picture.
func unfetched(path string, err error) *routes.Error {
	var refusal *fetch.Error
	if !errors.As(err, &refusal) {
		refusal = &fetch.Error{Reason: fetch.Unreachable}
	}
	switch refusal.Reason {
	case fetch.Busy:
		return &routes.Error{Status: 503, Code: "MODEL_AT_CAPACITY", RetryAfter: routes.RetrySoon,
			Message: "Too many pictures are being fetched right now; nothing was charged. Please retry."}
	case fetch.TooLarge:
		return refused(path, picture.Header{Size: picture.MaxSize}.Accept())
	case fetch.Unwanted:
		return refused(path, nil)
	}
	return routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: path + ": " + refusal.Text()})
}

// link is the address that a source is, empty when it is a picture itself.
func (s *source) link() string {
	if s.file != nil || len(s.quoted) > maxLink {
		return ""
	}
	if image.IsURL(s.quoted) {
		return unquoted(s.quoted)
	}
	if text := unquoted(s.quoted); image.IsURL(text) { // https:\/\/
		return text
	}
	return ""
}

// maxLink is the longest link in bytes.
const maxLink = 4 << 10

// takePicture takes the picture from the body, where it stays.
func (s *source) takePicture() (in image.Input, e *routes.Error) {
	var err error
	if s.file != nil {
		in, err = image.ReadRaw(s.file)
	} else {
		in, err = image.ReadText(s.quoted)
	}
	if err != nil {
		return in, refused(s.path, err)
	}
	return in, nil
}

// refused is the answer to a picture that is not taken (addendum 8).
func refused(path string, err error) *routes.Error {
	refusal := &picture.Refusal{Status: 400, Code: "CORRUPTED_IMAGE", Text: "The image cannot be decoded."}
	errors.As(err, &refusal)
	return &routes.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Text,
		Issues: []routes.Issue{{Code: "custom", Path: path, Message: path + ": " + refusal.Text}}}
}
