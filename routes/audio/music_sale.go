package audio

import (
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing"
	"farebox/config"
	"farebox/providers/queue"
	"farebox/routes"
)

// track is one job for music on its way to be sold. Its price is known before: all of
// it is held, and charged when the job is queued.
type track struct {
	call  *routes.Call
	of    *config.Music
	order *queue.Order
	bill  musicBill
	named string // what the client called the model
	body  []byte
}

// queuePatience is how long queueing can take: its upstream is asked once, and it does
// not wait for what is made.
const queuePatience = 3 * time.Minute

// queueMusic answers POST /audio/queue (addendum 9.6).
func (of *Capability) queueMusic(c *routes.Call) *routes.Error {
	f, e := readMusic(c)
	if e != nil {
		return e
	}
	if e := f.choose(c); e != nil {
		return e
	}
	order, e := f.order()
	if e != nil {
		return e
	}
	t := &track{call: c, of: f.of, order: order, bill: billOf(f.of, order), named: f.Words(-1, musicModel)}
	c.Part = t
	return c.Sell(t, routes.Terms{Patience: queuePatience})
}

// Admit holds the price: all of it or nothing.
func (t *track) Admit(again bool) *routes.Error {
	if again {
		return t.call.AdmitAgain(1)
	}
	lines := t.bill.lines(t.of.Price)
	cost := lines.Cost()
	if d := t.call.Admit(&billing.Admission{Hold: cost, Min: cost}); d.Code != billing.Admitted {
		return t.call.Denied(&d)
	}
	return nil
}

// CarryOut has the job queued.
func (t *track) CarryOut() (relayed bool, e *routes.Error) {
	lines := t.bill.lines(t.of.Price)
	t.call.Sold = routes.Bill{Lines: lines, Cost: lines.Cost(), Status: 200}
	id, e := t.call.Queue(&routes.JobSale{Kind: queue.Music, Order: t.order,
		Detail: appendDetail(nil, &t.bill), Named: t.named})
	if e != nil {
		return false, e
	}
	t.body = routes.AppendString([]byte(`{"model":`), t.call.Model.ID)
	t.body = routes.AppendString(append(t.body, `,"queue_id":`...), id)
	t.body = append(routes.AppendString(append(t.body, `,"status":`...), t.call.QueuedStatus()), '}')
	return false, nil
}

// musicTypes are the media types of formats.
var musicTypes = map[string]string{"mp3": "audio/mpeg", "wav": "audio/wav", "flac": "audio/flac"}

// appendDetail appends what retrieve says of the job besides.
func appendDetail(dst []byte, b *musicBill) []byte {
	return append(strconv.AppendInt(append(dst, `{"seconds":`...), b.Seconds, 10), '}')
}

// KeepAnswer keeps the answer for a repeat.
func (t *track) KeepAnswer() { t.call.Keep(routes.JSONType, t.body) }

// Respond makes the answer the response.
func (t *track) Respond() { _ = t.call.WriteJSON(t.body) }

// Close is routes.Part: nothing was taken from others.
func (t *track) Close() {}

// Observe does nothing: jobs are counted where they are driven.
func (t *track) Observe(time.Duration) {}

// Log says what was charged.
func (t *track) Log(e *zerolog.Event) *zerolog.Event {
	if t.call.Settled {
		e = e.Str("charged_usd", t.call.Charged.String())
	}
	return e
}

// Recycle does nothing: it is not used again.
func (t *track) Recycle() {}
