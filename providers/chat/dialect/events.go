package dialect

import (
	"bytes"
	"cmp"
)

const (
	// MaxEvent is the largest event that is held until it is whole, where a dialect
	// has no larger one. A larger one goes out as it comes.
	MaxEvent = 64 << 10
	// keepHeld is how much memory for held bytes a reused Events keeps.
	keepHeld = 4 << 10
)

var bom = []byte("\xef\xbb\xbf")

// Events cuts a byte stream into server-sent events, wherever it was split on
// its way. Lines end in LF, CR LF or CR; an event ends with an empty line. The
// zero value is ready.
//
// The rest that is not yet a whole event is held and comes in front of the next bytes;
// in between nothing is copied.
type Events struct {
	// From and To enclose, in the result of Feed, the event that Next found,
	// with its lines' ends and the empty line.
	From, To int
	// Data is its data: without the field name, several lines joined by a space,
	// which between JSON's tokens means the same as their ends, and which breaks no
	// event where a line ended inside a string.
	Data []byte
	// DataFrom is where Data begins in the result of Feed; -1 when it was joined.
	DataFrom int
	// Name is its event field.
	Name []byte
	// Most is the largest event that is held until it is whole; 0: MaxEvent.
	Most int

	src    []byte // p itself, or held
	line   int    // where the first unread line of the event begins
	seen   int    // no line ends in src[line:seen]
	lines  int    // lines read of the event
	carry  bool   // src is held
	odd    bool   // src has a CR
	skipLF bool   // the last event ended in a CR at the end of src: an LF belongs to it
	begun  bool   // the first bytes are over, where a byte order mark may be
	held   []byte
	joined []byte

	large bool // the rest of an event above MaxEvent is going by
	blank bool // …and nothing of its current line has been seen
	cr    bool // …and its last byte was a CR
}

// Feed takes the next bytes and returns those that From and To refer to: p
// itself if nothing was held.
func (e *Events) Feed(p []byte) []byte {
	if e.To == len(e.src) {
		e.held = e.held[:0]
		e.src, e.carry, e.line, e.seen = p, false, 0, 0
		e.odd = bytes.IndexByte(p, '\r') >= 0
	} else {
		if e.To > 0 { // a large event does not move for each of its pieces
			e.held = e.held[:copy(e.held, e.held[e.To:])]
			e.line -= e.To
			e.seen -= e.To
		}
		e.held = append(e.held, p...)
		e.src = e.held
		// A large event comes in many pieces: none is looked at twice.
		e.odd = e.odd || bytes.IndexByte(p, '\r') >= 0
	}
	e.From, e.To = 0, 0
	return e.src
}

// Keep must be called after the last Next of every Feed: it copies the bytes that must
// outlive p.
func (e *Events) Keep() {
	if e.carry || e.To == len(e.src) {
		return
	}
	e.held = append(e.held[:0], e.src[e.To:]...)
	e.line -= e.To
	e.seen -= e.To
	e.src, e.carry = e.held, true
	e.From, e.To = 0, 0
}

// Source is the buffer that From and To refer to.
func (e *Events) Source() []byte { return e.src }

// Next finds the next whole event. An event can be without data: a comment, an
// empty line, or the LF that belongs to the event before (Continues).
func (e *Events) Next() bool {
	src, at := e.src, e.To
	if e.skipLF && at < len(src) {
		e.skipLF = false
		if src[at] == '\n' {
			e.From, e.To, e.line = at, at+1, at+1
			e.Data, e.Name, e.DataFrom = nil, nil, -1
			return true
		}
	}
	// The usual event: one data line and an empty one, with equal ends.
	if e.lines == 0 {
		skip := max(e.seen-e.line, 0)
		if n := bytes.IndexByte(src[e.line+skip:], '\n'); n >= 0 && n+skip > 0 {
			n += skip
			end, next := e.line+n, e.line+n+1
			switch {
			case !e.odd && next < len(src) && src[next] == '\n':
				e.From, e.To, e.line = at, next+1, next+1
				e.readLine(end)
				return true
			case e.odd && next+1 < len(src) && src[next] == '\r' && src[next+1] == '\n' && src[end-1] == '\r' &&
				bytes.IndexByte(src[e.line:end], '\r') == n-1:
				e.From, e.To, e.line = at, next+2, next+2
				e.readLine(end - 1)
				return true
			case !e.odd && e.begun && e.line == at && e.named(end):
				return true
			}
		}
	}
	return e.nextOfLines()
}

var (
	eventField = []byte("event: ")
	dataField  = []byte("data: ")
)

// named takes the event of an event line, which ends at end, and one data line, which
// some vendors write each time. Any other is for nextOfLines.
func (e *Events) named(end int) bool {
	from := end + 1
	name, rest := e.src[e.line:end], e.src[from:]
	if !bytes.HasPrefix(name, eventField) || !bytes.HasPrefix(rest, dataField) {
		return false
	}
	n := bytes.IndexByte(rest, '\n')
	if n < 0 || n+1 >= len(rest) || rest[n+1] != '\n' {
		return false
	}
	e.From = e.line
	e.To = from + n + 2
	e.line = e.To
	e.Name, e.Data, e.DataFrom = name[len(eventField):], rest[len(dataField):n], from+len(dataField)
	return true
}

// nextOfLines is Next for events of any shape.
func (e *Events) nextOfLines() bool {
	src := e.src
	for {
		skip := max(e.seen-e.line, 0)
		rest := src[e.line+skip:]
		n := bytes.IndexByte(rest, '\n')
		if e.odd {
			if cr := bytes.IndexByte(rest, '\r'); cr >= 0 && (n < 0 || cr < n) {
				n = cr
			}
		}
		if n < 0 {
			e.seen = len(src)
			return false
		}
		n += skip
		end, next := e.line+n, e.line+n+1
		if src[end] == '\r' {
			switch {
			case next < len(src) && src[next] == '\n':
				next++
			case next == len(src) && n > 0:
				return false // an LF may follow
			case next == len(src):
				e.skipLF = true
			}
		}
		if n > 0 {
			e.line = next
			e.lines++
			continue
		}
		e.From, e.To, e.line = e.To, next, next
		e.lines = 0
		e.read(end)
		return true
	}
}

// readLine takes the field out of an event of one line.
func (e *Events) readLine(end int) {
	ev := e.src[e.From:end]
	if !e.begun || len(ev) <= 5 || ev[0] != 'd' || string(ev[:5]) != "data:" {
		e.read(end)
		return
	}
	skip := 5
	if ev[5] == ' ' {
		skip = 6
	}
	e.Data, e.Name, e.DataFrom = ev[skip:], nil, e.From+skip
}

// read takes the fields out of the event that ends, but for its empty line,
// at end.
func (e *Events) read(end int) {
	ev, from := e.src[e.From:end], e.From
	if !e.begun {
		e.begun = true
		if bytes.HasPrefix(ev, bom) {
			ev, from = ev[len(bom):], from+len(bom)
		}
	}
	e.Data, e.Name, e.DataFrom, e.lines = nil, nil, -1, 0
	e.readLines(ev, from)
}

func (e *Events) readLines(ev []byte, from int) {
	count := 0
	for at := 0; at < len(ev); {
		end := at
		for end < len(ev) && ev[end] != '\n' && ev[end] != '\r' {
			end++
		}
		line := ev[at:end]
		value := line
		skip := -1
		switch {
		case bytes.HasPrefix(line, []byte("data:")):
			skip = 5
		case bytes.HasPrefix(line, []byte("event:")):
			skip = 6
		case string(line) == "data":
			skip = 4
		}
		if skip > 0 {
			if skip < len(line) && line[skip] == ' ' {
				skip++
			}
			value = line[skip:]
		}
		switch {
		case skip < 0:
		case line[0] == 'e':
			e.Name = value
		case count == 0:
			e.Data, e.DataFrom, count = value, from+at+skip, 1
		default:
			if count == 1 {
				e.joined = append(e.joined[:0], e.Data...)
			}
			e.joined = append(append(e.joined, ' '), value...)
			e.Data, e.DataFrom = e.joined, -1
			count++
		}
		at = end + 1 // the LF of a CR LF makes an empty line here, which is not a field
	}
}

// TooLarge says that the event that is being held has grown above Most.
func (e *Events) TooLarge() bool { return len(e.src)-e.To > cmp.Or(e.Most, MaxEvent) }

// Let gives up the event that is being held: its bytes so far are returned, to
// go out, and LetOn finds where it ends.
func (e *Events) Let() []byte {
	tail := e.src[e.To:]
	e.large = true
	e.cr = tail[len(tail)-1] == '\r'
	e.blank = e.line == len(e.src) || e.cr
	e.To, e.line, e.lines = len(e.src), len(e.src), 0
	e.begun = true
	return tail
}

// Large says that a passed large event has not ended.
func (e *Events) Large() bool { return e.large }

// LetOn is how many bytes of p belong to the passed large event; it has
// ended if that is not all of p, or if Large is now false.
func (e *Events) LetOn(p []byte) int {
	for i, c := range p {
		switch c {
		case '\n':
			if e.cr {
				e.cr = false // of a CR LF
				continue
			}
		case '\r':
		default:
			e.blank, e.cr = false, false
			continue
		}
		e.cr = c == '\r'
		if e.blank {
			e.large, e.blank = false, false
			e.skipLF, e.cr = e.cr, false
			return i + 1
		}
		e.blank = true
	}
	return len(p)
}

// AtEnd reads the held bytes as a last event, which lacks its empty line, as
// some servers end theirs. It reports false when nothing is held.
func (e *Events) AtEnd() bool {
	if e.large || e.To == len(e.src) {
		return false
	}
	e.odd = true
	e.From, e.To = e.To, len(e.src)
	e.read(len(e.src))
	return true
}

// Reset readies e for the next answer.
func (e *Events) Reset() {
	held, joined := e.held[:0], e.joined[:0]
	if cap(held) > keepHeld {
		held = nil
	}
	if cap(joined) > keepHeld {
		joined = nil
	}
	*e = Events{held: held, joined: joined}
}
