package jobs

import (
	"strconv"
	"time"

	"farebox/billing/money"
	"farebox/routes"
)

// musicPatience is how long queueing can take: its upstream is asked once, and it does not wait
// for the result.
const musicPatience = 3 * time.Minute

// sellMusic answers POST /audio/queue (addendum 9.6).
func sellMusic(_ *Capability, c *routes.Call, body *form) *routes.Error {
	f := musicOf(body)
	order, e := f.order()
	if e != nil {
		return e
	}
	bill := musicBillOf(f.model, order)
	price := func() money.Lines { return bill.lines(f.model.Price) }
	sale := &routes.Flat{Held: price}
	sale.Do = func() *routes.Error {
		c.Sold = routes.FlatBill(price(), 0)
		id, e := c.Queue(&routes.JobSale{Order: order, Detail: appendDetail(nil, &bill),
			Named: f.words(musicModel)})
		if e != nil {
			return e
		}
		sale.Answer.Body = append(c.Queued(id), '}')
		return nil
	}
	return c.SellFlat(sale, routes.Terms{Patience: musicPatience})
}

// musicTypes are the media types of formats.
var musicTypes = map[string]string{"mp3": "audio/mpeg", "wav": "audio/wav", "flac": "audio/flac"}

// appendDetail appends further members of retrieve's answer.
func appendDetail(dst []byte, b *musicBill) []byte {
	return append(strconv.AppendInt(append(dst, `{"seconds":`...), b.Seconds, 10), '}')
}
