package journal

import (
	"encoding/binary"
	"errors"
	"slices"

	"farebox/billing/money"
)

// Page is the detail of consecutive requests of one account, packed: one
// row in the store instead of one to six a request, which makes a detail cost a
// fraction of a microsecond. Pages are found by account and sequence or time;
// [Page.Each] takes them apart.
//
// All requests of a page ended in the same hour, so that counters by hour
// (usage_hour) are exact and requests that overlap a moment are found within its hour.
type Page struct {
	Account         uint32
	Node            uint32
	First, Last     uint64 // sequences
	FirstUs, LastUs int64
	Requests        int
	Entries         Entries
	Data            []byte
}

// Entries is a number of entries by the currency that paid, in spend order.
type Entries [money.Currencies]int64

// Add adds n to c.
func (e *Entries) Add(n *Entries) {
	for i := range e {
		e[i] += n[i]
	}
}

// Count adds the entries of a charge.
func (e *Entries) Count(s *Shares) {
	for _, x := range s.All() {
		e[x.Place]++
	}
}

// Of is the count for a place in spend order, or with anyPlace of all.
func (e *Entries) Of(place int) int64 {
	if place == AnyPlace {
		all := int64(0)
		for _, n := range e {
			all += n
		}
		return all
	}
	return e[place]
}

// AnyPlace is the place of a charge that does not name one.
const AnyPlace = -1

// HourUs is an hour in microseconds.
const HourUs = int64(3600) * 1e6

// HourOf is the hour of a time, counted from 1970.
func HourOf(us int64) int64 { return us / HourUs }

// pageSize is where a page is closed: about 300 requests.
const pageSize = 16 << 10

// longRecord replaces the size of a request whose size follows in two bytes.
const longRecord = 255

// Add appends a settlement: size, sequences since the one before, time, and
// the body as it is in the journal.
func (p *Page) Add(r *Record) {
	us := r.TimeNs / 1000
	p.Note(r)
	d := append(p.Data, 0)
	size := len(d)
	d = binary.AppendUvarint(d, r.Seq-p.Last)
	d = binary.AppendUvarint(d, uint64(us))
	d = r.appendCharge(d)
	if n := len(d) - size; n < longRecord {
		d[size-1] = byte(n)
	} else {
		d[size-1] = longRecord
		d = slices.Insert(d, size, byte(n), byte(n>>8))
	}
	p.Data, p.Last = d, r.Seq
}

// Note counts a settlement and widens the page's times to it.
func (p *Page) Note(r *Record) {
	us := r.TimeNs / 1000
	if p.Requests == 0 {
		p.Account, p.First, p.Last = r.Account, r.Seq, r.Seq
		p.FirstUs, p.LastUs = us, us
		p.Entries = Entries{}
	}
	var s Shares
	r.Spread(&s)
	p.Entries.Count(&s)
	p.FirstUs, p.LastUs = min(p.FirstUs, us), max(p.LastUs, us)
	p.Requests++
}

// takes says whether a request that ended at us may go into the page.
func (p *Page) takes(us int64) bool { return p.Requests == 0 || HourOf(us) == HourOf(p.FirstUs) }

func (p *Page) reset() { p.Data, p.Requests = p.Data[:0], 0 }

// ErrPage is the error of a page that cannot be read.
var ErrPage = errors.New("a page of usage is damaged")

// Each gives the page's settlements in order. The record is valid during the call.
func (p *Page) Each(before SoldBefore, do func(*Record) error) error {
	r := Record{Kind: Settle, Seq: p.First}
	b := p.Data
	for range p.Requests {
		if len(b) == 0 {
			return ErrPage
		}
		size, at := int(b[0]), 1
		if size == longRecord && len(b) > 2 {
			size, at = int(b[1])|int(b[2])<<8, 3
		}
		if len(b) < at+size {
			return ErrPage
		}
		d := numbers{b: b[at : at+size]}
		b = b[at+size:]
		r.Seq += d.uint()
		r.TimeNs = d.int() * 1000
		r.readCharge(&d, before)
		if d.bad || len(d.b) != 0 || r.Account != p.Account {
			return ErrPage
		}
		if err := do(&r); err != nil {
			return err
		}
	}
	if len(b) != 0 || r.Seq != p.Last {
		return ErrPage
	}
	return nil
}

// Pages collects the pages of a chunk of detail.
type Pages struct {
	First, Last uint64
	Sealed      bool             // handed to the store
	open        map[uint32]*Page // by account
	full        []*Page
	free        []*Page
	all         []*Page
}

// keepPages is how many pages keep their memory for the next chunk, about 1 MB.
const keepPages = 64

// Begin empties the set for the records after sequence last.
func (s *Pages) Begin(last uint64) {
	s.First, s.Last, s.Sealed = last+1, last, false
	for _, p := range s.all {
		if len(s.free) < keepPages {
			p.reset()
			s.free = append(s.free, p)
		}
	}
	s.open, s.full, s.all = map[uint32]*Page{}, nil, nil
}

// Add takes a record, of which only charges are kept.
func (s *Pages) Add(r *Record) {
	s.Last = r.Seq
	if r.Kind != Settle {
		return
	}
	p := s.open[r.Account]
	if p != nil && !p.takes(r.TimeNs/1000) {
		s.full = append(s.full, p)
		p = nil
	}
	if p == nil {
		if n := len(s.free); n > 0 {
			p, s.free = s.free[n-1], s.free[:n-1]
		} else {
			p = &Page{}
		}
		s.open[r.Account] = p
	}
	p.Add(r)
	if len(p.Data) >= pageSize {
		s.full = append(s.full, p)
		delete(s.open, r.Account)
	}
}

// List gives all pages of the chunk.
func (s *Pages) List() []*Page {
	s.all = s.full
	for _, p := range s.open {
		s.all = append(s.all, p)
	}
	return s.all
}

// Bytes is the record by itself, for ReadRecord.
func (r *Record) Bytes() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+MaxRecord), r.Seq)
	return b[:8+r.Put(b[8:cap(b)])]
}

// ReadRecord reads the result of Bytes.
func ReadRecord(b []byte, before SoldBefore) (r *Record, err error) {
	r = &Record{}
	if len(b) < 8 || r.Get(b[8:], binary.LittleEndian.Uint64(b), before) != len(b)-8 {
		return nil, errors.New("a record in the store is damaged")
	}
	return r, nil
}
