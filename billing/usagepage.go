package billing

import (
	"encoding/binary"
	"errors"
	"slices"

	"farebox/billing/money"
)

// usagePage is the detail of consecutive requests of one account, packed: one
// row in the store instead of one to six a request, which is what makes a
// detail cost a fraction of a microsecond. Pages are found by account and
// sequence or time; [usagePage.each] takes them apart.
//
// All requests of a page ended in the same hour, so that counters by hour
// (usage_hour) are exact and what overlaps a moment is found within its hour.
type usagePage struct {
	account         uint32
	node            uint32
	first, last     uint64 // sequences
	firstUs, lastUs int64
	requests        int
	entries         entryCount
	data            []byte
}

// entryCount is a number of entries by the currency that paid, in spend order.
type entryCount [money.Currencies]int64

func (c *entryCount) add(n *entryCount) {
	for i := range c {
		c[i] += n[i]
	}
}

// count adds the entries of a charge.
func (c *entryCount) count(s *shares) {
	for _, x := range s.all() {
		c[x.place]++
	}
}

// of is the count for a place in spend order, or with anyPlace of all.
func (c *entryCount) of(place int) int64 {
	if place == anyPlace {
		return c[money.InDIEM] + c[money.InBundled] + c[money.InUSD]
	}
	return c[place]
}

const anyPlace = -1

const hourUs = int64(3600) * 1e6

// hourOf is the hour of a time, counted from 1970.
func hourOf(us int64) int64 { return us / hourUs }

// pageSize is where a page is closed: about 300 requests.
const pageSize = 16 << 10

// longRecord stands for the size of a request whose size follows in two bytes.
const longRecord = 255

// add appends a settlement: size, sequences since the one before, time, and
// the body as it stands in the journal.
func (p *usagePage) add(r *record) {
	us := r.timeNs / 1000
	p.note(r)
	d := append(p.data, 0)
	size := len(d)
	d = binary.AppendUvarint(d, r.seq-p.last)
	d = binary.AppendUvarint(d, uint64(us))
	d = r.appendCharge(d)
	if n := len(d) - size; n < longRecord {
		d[size-1] = byte(n)
	} else {
		d[size-1] = longRecord
		d = slices.Insert(d, size, byte(n), byte(n>>8))
	}
	p.data, p.last = d, r.seq
}

// note counts a settlement and widens the page's times to it.
func (p *usagePage) note(r *record) {
	us := r.timeNs / 1000
	if p.requests == 0 {
		p.account, p.first, p.last = r.account, r.seq, r.seq
		p.firstUs, p.lastUs = us, us
		p.entries = entryCount{}
	}
	var s shares
	r.spread(&s)
	p.entries.count(&s)
	p.firstUs, p.lastUs = min(p.firstUs, us), max(p.lastUs, us)
	p.requests++
}

// takes says whether a request that ended at us may go into the page.
func (p *usagePage) takes(us int64) bool { return p.requests == 0 || hourOf(us) == hourOf(p.firstUs) }

func (p *usagePage) reset() { p.data, p.requests = p.data[:0], 0 }

var errPage = errors.New("a page of usage is damaged")

// each gives the page's settlements in order. The record is valid during the call.
func (p *usagePage) each(before soldBefore, do func(*record) error) error {
	r := record{kind: recSettle, seq: p.first}
	b := p.data
	for range p.requests {
		if len(b) == 0 {
			return errPage
		}
		size, at := int(b[0]), 1
		if size == longRecord && len(b) > 2 {
			size, at = int(b[1])|int(b[2])<<8, 3
		}
		if len(b) < at+size {
			return errPage
		}
		d := numbers{b: b[at : at+size]}
		b = b[at+size:]
		r.seq += d.uint()
		r.timeNs = d.int() * 1000
		r.readCharge(&d, before)
		if d.bad || len(d.b) != 0 || r.account != p.account {
			return errPage
		}
		if err := do(&r); err != nil {
			return err
		}
	}
	if len(b) != 0 || r.seq != p.last {
		return errPage
	}
	return nil
}
