package routes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"farebox/billing"
	"farebox/billing/job"
	"farebox/billing/replay"
	"farebox/billing/store"
	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/chat/dialect"
	"farebox/providers/media"
	"farebox/providers/queue"
	"farebox/proxy"
)

// JobSale is a job on its way to be sold: the fourth ending of a sale.
type JobSale struct {
	Order *queue.Order
	// Detail is the JSON that the endpoints read of the job later on, at most 4 KiB.
	Detail []byte
	// Named is the client's name of the model: the job is found by that, too, whatever model has
	// the name later on.
	Named string
}

// Queue sells a job and has an upstream asked for it, from a CarryOut whose Sold has its cost
// already. When it returns an id, the job is the store's, and its upstream has it or will be
// asked until it has; the rest is the machine's. After an error nothing was sold, or it was sold
// and is given back, as the error says then.
//
// The order of things decides that a job is paid if and only if it is there: its charge
// is prepared in the journal, its row is added, which sells it, its upstream is asked,
// and then the hold is settled. A process that dies in between settles it at its next
// start, or voids it, as the row is there or not.
func (c *Call) Queue(s *JobSale) (id string, e *Error) {
	m := c.g.jobs
	if m == nil {
		return "", &Error{Status: 503, Code: "MODEL_OFFLINE", Message: "Jobs are not taken right now.",
			RetryAfter: OverloadRetry}
	}
	room, err := m.Reserve(c.Key.Account.No())
	if err != nil {
		return "", c.noRoom(err)
	}
	defer room.Give()
	row, e := c.jobRow(s)
	var existing *store.JobRow
	if e == nil {
		since := c.Began.Add(-c.snap.cfg.Idempotency.Window)
		existing, err = m.Sell(row, since.UnixMicro())
	}
	switch {
	case e != nil:
		return "", e
	case err != nil:
		c.g.log.Error().Err(err).Bytes("request_id", c.ID[:]).Msg("a job could not be written down; it was not sold")
		return "", cannotSell()
	case existing != nil:
		return c.soldBefore(s, existing)
	}
	decided := false
	defer func() {
		if !decided { // something panicked: it was sold, and the machine finds it
			c.Settle()
		}
	}()
	out := m.Submit(row, room)
	decided = true
	if out.Upstream != "" {
		c.Upstream = out.Upstream
	}
	switch {
	case out.Dropped, out.Undecided:
		// Its hold is voided as the request ends, unless its row is there.
		return "", refusedJob(out.Refused, false)
	case out.Refused != nil:
		e = refusedJob(out.Refused, true)
	case out.Unknown != nil:
		e = &Error{Status: 502, Code: "UPSTREAM_ERROR", Message: "The upstream did not confirm the job, so it was " +
			"abandoned and its price refunded."}
	default:
		return row.ID, nil
	}
	// It was sold, and is given back like every job that failed.
	if c.Keeps() {
		c.Keep("application/json", c.ErrorBody(e))
		c.KeepStatus(e.Status)
	}
	c.Settle()
	return "", e
}

// jobRow is the row of a job whose charge is in the journal.
func (c *Call) jobRow(s *JobSale) (*store.JobRow, *Error) {
	order, err := json.Marshal(s.Order)
	if err != nil {
		panic(fmt.Errorf("an order cannot be written: %w", err)) // it has nothing that could not
	}
	row := &store.JobRow{ID: newJobID(), Kind: s.Order.Kind, Model: c.Model.ID, Order: order, Detail: s.Detail}
	if s.Named != c.Model.ID {
		row.Named = s.Named
	}
	c.Upstream = onlyUpstream(c.Model)
	if err := c.hold.PrepareJob(c.settlement(), row); err != nil {
		c.g.log.Error().Err(err).Bytes("request_id", c.ID[:]).Msg("a job could not be sold")
		return nil, cannotSell()
	}
	return row, nil
}

// onlyUpstream is the upstream of a model that has no other; empty: it has several.
func onlyUpstream(m *dialect.Model) (name string) {
	for i, t := range m.Targets {
		if i > 0 && t.Upstream.Name != name {
			return ""
		}
		name = t.Upstream.Name
	}
	return name
}

func cannotSell() *Error {
	return &Error{Status: 503, Message: "The job cannot be written down right now; please retry.", RetryAfter: RetrySoon}
}

// newJobID is a random UUID.
func newJobID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return formatUUID(b[:])
}

func formatUUID(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// soldBefore answers a request whose job was sold to it before: the process died before
// its answer could be kept. It costs nothing.
func (c *Call) soldBefore(s *JobSale, was *store.JobRow) (string, *Error) {
	if was.Kind != s.Order.Kind || was.Model != c.Model.ID {
		return "", keyRefused(replay.ErrReused)
	}
	c.Sold = Bill{}
	c.Ctx.Response.Header.SetCanonical(headerReplayed, []byte("true"))
	return was.ID, nil
}

// noRoom is the answer while no more jobs are taken.
func (c *Call) noRoom(err error) *Error {
	var full *job.Saturated
	if errors.As(err, &full) {
		return &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Message: full.Why + " Please retry later.",
			Custom: full.Why, RetryAfter: OverloadRetry}
	}
	c.g.log.Error().Err(err).Msg("a job could not be queued")
	return cannotSell()
}

// refusedJob is an upstream's refusal as its client hears it at queue time.
func refusedJob(refusal *asyncjob.Refused, paid bool) *Error {
	e := &Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message, RetryAfter: refusal.RetryAfter,
		Suggestion: refusal.Suggestion}
	if e.Status < 400 || e.Status > 599 {
		e.Status = 502
	}
	if paid {
		e.Message += " What it cost is refunded."
	}
	return e
}

// Job is the view of a job of a kind and a model that the request's account may see: 404 if the
// account has no such job or released it. An upstream that has it is asked soon.
func (c *Call) Job(kind *config.JobKind, model, id []byte) (*job.View, *Error) {
	m := c.g.jobs
	if m == nil {
		return nil, NoMedia(id)
	}
	v, err := m.View(c.Key.Account.No(), kind.Name, string(model), string(id))
	switch {
	case err != nil:
		c.g.log.Error().Err(err).Msg("a job could not be looked up")
		return nil, jobsAway()
	case v == nil:
		return nil, NoMedia(id)
	}
	if v.Completed() && !v.Revoked && c.snap.cfg.Media.Links {
		v.URL = c.MediaLink(v.ID, media.Plain, v.ExpiresAt)
	}
	return v, nil
}

func jobsAway() *Error {
	return &Error{Status: 503, Message: "Jobs cannot be looked up right now; please retry.", RetryAfter: RetrySoon}
}

// ReleaseJob lets a job go, in any state: from here on it is unknown to its customer, its media
// are deleted, and an upstream that still has it gets a cancel request. ok is false where the
// media could not be deleted now: the job is as before, and can be let go once more.
func (c *Call) ReleaseJob(v *job.View) (ok bool, e *Error) {
	ctx, cancel := context.WithTimeout(context.Background(), mediaLimit)
	defer cancel()
	ok, found, err := c.g.jobs.Release(ctx, v)
	switch {
	case err != nil:
		c.g.log.Error().Err(err).Str("queue_id", v.ID).Msg("a job could not be released")
		return false, nil
	case !found:
		return false, NoMedia([]byte(v.ID))
	}
	return ok, nil
}

// mediaLimit is how long the media store may take to say whether it has something, or to
// delete it.
const mediaLimit = 20 * time.Second

// DeliverMedia makes the media of a completed job the answer, streamed from the store. With
// release the job is let go once the last byte was taken; a client that left before that can
// fetch it again. look, unless it is empty, sees the first bytes before the headers leave.
func (c *Call) DeliverMedia(v *job.View, release bool, look MediaPeek) *Error {
	ctx, cancel := context.WithCancel(context.Background())
	limit := time.AfterFunc(mediaLimit, cancel)
	body, err := c.g.media.Open(ctx, v.ID, 0, -1)
	src := &mediaSource{body: body, size: v.MediaBytes}
	if err == nil && look.See != nil {
		head := make([]byte, min(look.Bytes, v.MediaBytes))
		n, _ := io.ReadFull(body, head) // the read below repeats an error
		look.See(head[:n])
		src.body = io.MultiReader(bytes.NewReader(head[:n]), body)
	}
	if !limit.Stop() && err == nil {
		_ = body.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		if errors.Is(err, media.ErrNone) { // it was let go, or has expired, a moment ago
			return NoMedia([]byte(v.ID))
		}
		c.g.log.Error().Err(err).Str("queue_id", v.ID).Msg("media cannot be opened")
		return &Error{Status: 503, Message: "The result of the job cannot be read right now; please retry.",
			RetryAfter: RetrySoon}
	}
	h := &c.Ctx.Response.Header
	h.SetContentType(v.MediaType)
	h.Set("Cache-Control", "private, no-store")
	g, id := c.g, v.ID
	c.g.proxy.Deliver(c.Ctx, src, func(n int64, err error) {
		_ = body.Close()
		cancel()
		switch {
		case err != nil && src.broken != nil:
			c.Cause = proxy.UpstreamTruncated.String()
			g.log.Error().Err(src.broken).Str("queue_id", id).Msg("media could not be read to their end")
		case err != nil && c.Cause == "":
			c.Cause = proxy.ClientGone.String()
		case err == nil && release && n == src.size:
			if _, err := g.jobs.Forget(id); err != nil {
				g.log.Error().Err(err).Str("queue_id", id).Msg("a job that was fetched could not be released")
			}
		}
		c.end()
	})
	c.Relays()
	return nil
}

// MediaPeek sees the first bytes of media, so many of them.
type MediaPeek struct {
	Bytes int64
	See   func(head []byte)
}

// mediaSource is the media of a job, on their way to a client.
type mediaSource struct {
	body   io.Reader
	size   int64
	broken error // of the store, not of the client
}

// Len is proxy.Source.
func (s *mediaSource) Len() int64 { return s.size }

// WriteTo is proxy.Source; it is called once.
func (s *mediaSource) WriteTo(w io.Writer) (n int64, err error) {
	buf := make([]byte, min(64<<10, max(s.size, 1)))
	for n < s.size {
		read, err := s.body.Read(buf[:min(int64(len(buf)), s.size-n)])
		if read > 0 {
			wrote, err := w.Write(buf[:read])
			n += int64(wrote)
			if err != nil {
				return n, err
			}
		}
		if err == io.EOF && n < s.size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && n < s.size {
			s.broken = err
			return n, err
		}
	}
	return n, nil
}

// JobAverage is the time within which four of five jobs of a model ended.
func (c *Call) JobAverage(model string) time.Duration {
	if c.g.jobs == nil {
		return time.Minute
	}
	return c.g.jobs.Average(model)
}

// NoMedia is the answer to an id that names nothing of this account.
func NoMedia(id []byte) *Error {
	return &Error{Status: 404, Code: "MEDIA_NOT_FOUND", Message: "There is no job " + Excerpt(id) +
		" of this model: it is unknown, has expired or was released."}
}

// Jobs is the store of jobs.
var _ job.Store = (*billing.Jobs)(nil)
