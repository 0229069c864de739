package media

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"farebox/billing/store"
	"farebox/config"
	"farebox/providers/media"
	"farebox/proxy"
	"farebox/routes"
)

// openLimit is how long the store may take to say whether it has something.
const openLimit = 20 * time.Second

func isNone(err error) bool    { return errors.Is(err, store.ErrNoRow) }
func isMissing(err error) bool { return errors.Is(err, media.ErrNone) }

// missing is the answer to links that are none of ours, and to missing files: nobody learns which
// ids exist.
func missing() *routes.Error {
	return &routes.Error{Status: 404, Code: "MEDIA_NOT_FOUND", Message: "There is nothing at this address."}
}

// gone is the answer to links that were good once.
func gone() *routes.Error {
	return &routes.Error{Status: 410, Code: "MEDIA_EXPIRED",
		Message: "This link has expired, was revoked, or was used for its one download."}
}

func later() *routes.Error {
	return &routes.Error{Status: 503, Message: "This cannot be read right now; please retry.",
		RetryAfter: routes.RetrySoon}
}

func tooOften(message string, wait time.Duration) *routes.Error {
	return &routes.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: message, RetryAfter: wait}
}

// find is the job of a request's link. Only the signature is looked at before the link is known
// to be ours.
func (ca *Capability) find(c *routes.Call) (*store.JobRow, media.LinkKind, *routes.Error) {
	id, q := string(c.Rest()), c.Ctx.QueryArgs()
	kind, expires, err := ca.links.Check(id, q.Peek("exp"), q.Peek("sig"), c.Began)
	switch {
	case errors.Is(err, media.ErrExpired):
		return nil, 0, gone()
	case err != nil || ca.store == nil:
		return nil, 0, missing()
	}
	if wait := ca.uses.admit(id, c.Began, expires, c.Config().Media.LinkRequests); wait > 0 {
		return nil, 0, tooOften("This link is asked too often.", wait)
	}
	row, err := ca.rows.Job(id)
	switch {
	case isNone(err):
		return nil, 0, gone()
	case err != nil:
		ca.log.Error().Err(err).Str("queue_id", id).Msg("a job could not be looked up for its link")
		return nil, 0, later()
	case row.ReleasedUs != 0 || row.LinksUs != 0, row.State == store.JobFailed,
		row.State.Terminal() && (row.MediaType == "" || row.ExpiresUs != 0 && row.ExpiresUs <= c.Began.UnixMicro()):
		return nil, 0, gone()
	}
	return row, kind, nil
}

// revoke answers DELETE: all links to the job's media become invalid. Its customer has the media
// with a key as before.
func (ca *Capability) revoke(c *routes.Call) *routes.Error {
	row, _, e := ca.find(c)
	if e != nil {
		return e
	}
	if _, err := ca.rows.RevokeLinks(row.ID, c.Began.UnixMicro()); err != nil {
		ca.log.Error().Err(err).Str("queue_id", row.ID).Msg("a link could not be revoked")
		return later()
	}
	c.Ctx.SetStatusCode(204)
	return nil
}

// get answers GET and HEAD with a job's media, or with a range of it.
func (ca *Capability) get(c *routes.Call) *routes.Error {
	row, kind, e := ca.find(c)
	switch {
	case e != nil:
		return e
	case !row.State.Terminal():
		e := missing()
		e.Message, e.RetryAfter = "This is not made yet; please retry.", 5*routes.RetrySoon
		return e
	}
	if e := ca.answer(c, row, kind); e != nil {
		for _, name := range []string{"Content-Disposition", "ETag", "Accept-Ranges"} {
			c.Ctx.Response.Header.Del(name) // they are not of an error
		}
		if e.Status != 416 {
			c.Ctx.Response.Header.Del("Content-Range")
		}
		c.Ctx.Response.Header.Set("Cache-Control", "no-store")
		return e
	}
	return nil
}

// answer is get for a file that exists.
func (ca *Capability) answer(c *routes.Call, row *store.JobRow, kind media.LinkKind) *routes.Error {
	h := &c.Ctx.Response.Header
	tag := `"` + row.ID + `"`
	ca.describe(c, row, kind, tag)
	if bytes.Contains(c.Ctx.Request.Header.Peek("If-None-Match"), []byte(tag)) {
		c.Ctx.SetStatusCode(304)
		return nil
	}
	from, length, partial := int64(0), row.MediaBytes, false
	if asked := c.Ctx.Request.Header.Peek("Range"); len(asked) > 0 && unchanged(c, tag) {
		if a, n, ok := media.ParseRange(asked, row.MediaBytes); ok {
			from, length, partial = a, n, true
		}
	}
	if length < 0 {
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(row.MediaBytes, 10))
		return &routes.Error{Status: 416, Code: "INVALID_REQUEST", Message: "The range is behind the end."}
	}
	if partial {
		c.Ctx.SetStatusCode(206)
		h.Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+length-1, 10)+"/"+
			strconv.FormatInt(row.MediaBytes, 10))
	}
	if c.Ctx.IsHead() {
		c.Ctx.Response.SkipBody = true
		h.SetContentLength(int(length))
		return nil
	}
	return ca.deliver(c, row, kind, from, length)
}

// unchanged says that a range may be of the bytes that the client already has, which never change
// under their id.
func unchanged(c *routes.Call, tag string) bool {
	only := c.Ctx.Request.Header.Peek("If-Range")
	return len(only) == 0 || string(only) == tag
}

// describe sets the headers of every answer. A browser that opens a link never runs anything of
// it.
func (ca *Capability) describe(c *routes.Call, row *store.JobRow, kind media.LinkKind, tag string) {
	h := &c.Ctx.Response.Header
	contentType, disposition := presented(row, kind)
	h.SetContentType(contentType)
	h.Set("Content-Disposition", disposition)
	h.Set("ETag", tag)
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Referrer-Policy", "no-referrer")
	if kind == media.Download {
		h.Set("Cache-Control", "private, no-store")
	} else {
		h.Set("Cache-Control", "private")
	}
}

// presented is the type and the name under which a client has it: never a type that a
// browser would show as a page, whatever is in the row.
func presented(row *store.JobRow, kind media.LinkKind) (contentType, disposition string) {
	contentType = media.MediaType(row.MediaType)
	ending := media.Ending(contentType)
	how := "inline"
	if ending == "" {
		contentType, ending = "application/octet-stream", "bin"
	}
	if ending == "bin" || kind == media.Download {
		how = "attachment"
	}
	name := "file"
	if config.JobKindOf(row.Kind) != nil {
		name = row.Kind
	}
	return contentType, how + `; filename="` + name + "-" + row.ID[:8] + "." + ending + `"`
}

// addressed is a Store that has addresses of its own.
type addressed interface {
	Address(ctx context.Context, id, contentType, disposition string) (string, error)
}

// deliver sends a piece of a job's media.
func (ca *Capability) deliver(c *routes.Call, row *store.JobRow, kind media.LinkKind, from, length int64,
) *routes.Error {
	ctx, cancel := context.WithCancel(context.Background())
	limit := time.AfterFunc(openLimit, cancel)
	own, leads := ca.store.(addressed)
	if s3 := c.Config().Media.S3; leads && kind == media.Plain && s3 != nil && s3.Redirect {
		defer cancel()
		return ca.lead(ctx, c, row, own)
	}
	once, p := kind == media.Download, piece{row.ID, from, length, row.MediaBytes}
	if once {
		busy, spent, err := ca.uses.begin(ca.rows, ca.node, p)
		if busy || spent || err != nil {
			limit.Stop()
			cancel()
			return ca.notNow(row.ID, spent, err)
		}
	}
	r, err := ca.store.Open(ctx, row.ID, from, length)
	if !limit.Stop() && err == nil {
		_ = r.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		if once {
			ca.handed(p, 0)
		}
		if isMissing(err) {
			return gone()
		}
		ca.log.Error().Err(err).Str("queue_id", row.ID).Msg("media cannot be opened for a link")
		return later()
	}
	src, id, status := &body{ReadCloser: r, size: length}, row.ID, c.Ctx.Response.StatusCode()
	c.Proxy().Deliver(c.Ctx, src, func(n int64, err error) {
		_ = src.Close()
		cancel()
		ca.served.Add(int(n))
		if once {
			ca.handed(p, n)
		}
		o := proxy.Outcome{}
		switch {
		case err != nil && src.broken != nil:
			o.Cause = proxy.UpstreamTruncated
			ca.log.Error().Err(src.broken).Str("queue_id", id).Msg("media could not be read to their end for a link")
		case err != nil:
			o.Cause = proxy.ClientGone
		}
		c.OnDone(o)
	})
	c.Relays()
	c.Status = status
	return nil
}

// notNow is the answer where a link for one download hands nothing over.
func (c *Capability) notNow(id string, spent bool, err error) *routes.Error {
	switch {
	case errors.Is(err, store.ErrNoRow) || spent:
		return gone()
	case err != nil:
		c.log.Error().Err(err).Str("queue_id", id).Msg("it could not be written down that a link is used")
		return later()
	}
	return tooOften("This link is good for one download, which is under way.", 5*time.Second)
}

// handed notes how much of a piece a link for one download has handed over.
func (c *Capability) handed(p piece, n int64) {
	if err := c.uses.end(c.rows, c.node, p, n); err != nil {
		c.log.Error().Err(err).Str("queue_id", p.id).Msg("it could not be written down that a link was used")
	}
}

// lead sends a client on to the bucket.
func (ca *Capability) lead(ctx context.Context, c *routes.Call, row *store.JobRow, own addressed) *routes.Error {
	contentType, disposition := presented(row, media.Plain)
	at, err := own.Address(ctx, row.ID, contentType, disposition)
	if err != nil {
		ca.log.Error().Err(err).Str("queue_id", row.ID).Msg("an address in the bucket cannot be signed")
		return later()
	}
	c.Ctx.Response.Header.Set("Location", at)
	c.Ctx.Response.Header.Set("Cache-Control", "private, no-store")
	c.Ctx.Response.Header.Del("Content-Range")
	c.Ctx.SetStatusCode(302)
	return nil
}
