package parse

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/richardlehane/mscfb"
)

// Records of a workbook that hold visible text ([MS-XLS] 2.3).
const (
	xlsFormula    = 0x06
	xlsEOF        = 0x0a
	xlsDateMode   = 0x22
	xlsFilePass   = 0x2f
	xlsContinue   = 0x3c
	xlsColInfo    = 0x7d
	xlsBoundSheet = 0x85
	xlsMulRK      = 0xbd
	xlsXF         = 0xe0
	xlsSST        = 0xfc
	xlsLabelSST   = 0xfd
	xlsDimensions = 0x200
	xlsNumber     = 0x203
	xlsLabel      = 0x204
	xlsBoolErr    = 0x205
	xlsString     = 0x207
	xlsRow        = 0x208
	xlsRK         = 0x27e
	xlsFormat     = 0x41e
	xlsBOF        = 0x809
)

const (
	xlsVersion  = 0x600 // of Excel 97 and later; earlier ones are not read
	xlsColumns  = 256
	maxBooks    = 4096 // sheets
	maxCompound = 10_000
)

// readCompound reads Office's compound files: old workbooks. Newer
// documents are in one when they are encrypted.
func readCompound(s *sink, doc []byte) error {
	r, err := mscfb.New(bytes.NewReader(doc))
	if err != nil {
		return refuse(Broken)
	}
	for n := 0; n < maxCompound; n++ {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return refuse(Unsupported)
		}
		if err != nil {
			return refuse(Broken)
		}
		switch entry.Name {
		case "EncryptedPackage":
			return refuse(Encrypted)
		case "Workbook", "Book":
			if entry.Size > int64(len(doc)) {
				return refuse(Broken)
			}
			stream, err := io.ReadAll(io.LimitReader(entry, int64(len(doc))))
			if err != nil {
				return refuse(Broken)
			}
			return readBIFF(s, stream)
		}
	}
	return refuse(TooLarge)
}

// book is the shared part of a workbook's sheets.
type book struct {
	stream  []byte
	strings []string
	formats map[uint16]shape // by number
	cells   []uint16         // number formats by XF
	from    time.Time        // day 0
	s       *sink
}

// shape is the meaning of a number.
type shape uint8

const (
	asNumber shape = iota
	asDate
	asTime
	asDateTime
)

// record is the next one at a place, and where the one behind it begins; false
// at the end.
func (b *book) record(at int) (id uint16, data []byte, next int, ok bool) {
	if at < 0 || at+4 > len(b.stream) {
		return 0, nil, 0, false
	}
	id = binary.LittleEndian.Uint16(b.stream[at:])
	next = at + 4 + int(binary.LittleEndian.Uint16(b.stream[at+2:]))
	if next > len(b.stream) {
		return 0, nil, 0, false
	}
	return id, b.stream[at+4 : next], next, true
}

func readBIFF(s *sink, stream []byte) error {
	b := &book{stream: stream, formats: map[uint16]shape{}, s: s}
	b.from = time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	id, data, at, ok := b.record(0)
	if !ok || id != xlsBOF || len(data) < 4 {
		return refuse(Unsupported)
	}
	if binary.LittleEndian.Uint16(data) != xlsVersion {
		return refuse(Unsupported)
	}
	type place struct {
		name string
		at   int
	}
	var sheets []place
	for id, data, next, ok := b.record(at); ok && id != xlsEOF; id, data, next, ok = b.record(next) {
		switch {
		case id == xlsFilePass:
			return refuse(Encrypted)
		case id == xlsDateMode && len(data) >= 2 && data[0] == 1:
			b.from = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
		case id == xlsFormat && len(data) >= 2:
			in := &runs{parts: [][]byte{data[2:]}}
			b.formats[binary.LittleEndian.Uint16(data)] = shapeOf(in.text(2))
		case id == xlsXF && len(data) >= 4:
			b.cells = append(b.cells, binary.LittleEndian.Uint16(data[2:]))
		case id == xlsBoundSheet && len(data) >= 8 && data[5] == 0 && data[4]&3 == 0 && len(sheets) < maxBooks:
			in := &runs{parts: [][]byte{data[6:]}}
			sheets = append(sheets, place{in.text(1), int(binary.LittleEndian.Uint32(data))})
		case id == xlsSST:
			next = b.shared(data, next)
		}
	}
	for _, sh := range sheets {
		b.sheet(sh.name, sh.at)
		if b.s.full {
			break
		}
	}
	return nil
}

// shared reads the strings of all cells, which go on in the records behind. It
// returns where those end.
func (b *book) shared(data []byte, next int) int {
	if len(data) < 8 {
		return next
	}
	in := &runs{parts: [][]byte{data[8:]}}
	for {
		id, more, behind, ok := b.record(next)
		if !ok || id != xlsContinue {
			break
		}
		in.parts = append(in.parts, more)
		next = behind
	}
	for n := binary.LittleEndian.Uint32(data[4:]); n > 0 && !in.ended(); n-- {
		b.strings = append(b.strings, in.text(2))
	}
	return next
}

// sheet writes the cells of one sheet, row by row, in the order of the file.
func (b *book) sheet(name string, at int) {
	id, data, next, ok := b.record(at)
	if !ok || id != xlsBOF || len(data) < 4 || binary.LittleEndian.Uint16(data[2:]) != 0x10 {
		return // a chart, or nothing
	}
	row := -1
	var cells [xlsColumns]string
	shown := &layout{}
	hidden := map[int]bool{}
	out := sheet{s: b.s, name: name, layout: shown}
	flush := func() {
		if !hidden[row] {
			out.row(row+1, trimmed(cells[:]))
		}
		cells = [xlsColumns]string{}
	}
	formula := -1 // the cell whose text is in the next record
	for id, data, next, ok = b.record(next); ok && id != xlsEOF && !b.s.full; id, data, next, ok = b.record(next) {
		if id == xlsString {
			if in := (&runs{parts: [][]byte{data}}); formula >= 0 {
				cells[formula] = in.text(2)
			}
			formula = -1
			continue
		}
		switch {
		case id == xlsRow && len(data) >= 14 && data[12]&0x20 != 0:
			hidden[int(binary.LittleEndian.Uint16(data))] = true
		case id == xlsColInfo && len(data) >= 10 && data[8]&1 != 0 && len(shown.hidden) < maxLayout:
			from, to := binary.LittleEndian.Uint16(data), binary.LittleEndian.Uint16(data[2:])
			shown.hidden = append(shown.hidden, [2]int{int(from) + 1, int(to) + 1})
		case id == xlsDimensions && len(data) >= 12:
			shown.width = min(int(binary.LittleEndian.Uint16(data[10:])), xlsColumns)
		}
		if !holdsCells(id) || len(data) < 8 {
			continue
		}
		y, x := int(binary.LittleEndian.Uint16(data)), int(binary.LittleEndian.Uint16(data[2:]))
		if x >= xlsColumns {
			continue
		}
		if y != row {
			flush()
			row = y
		}
		if id == xlsMulRK {
			for i := 4; i+8 <= len(data) && x < xlsColumns; i += 6 {
				cells[x] = b.number(data[i:], rk(binary.LittleEndian.Uint32(data[i+2:])))
				x++
			}
			continue
		}
		if cells[x] = b.cell(id, data[4:]); id == xlsFormula && isText(data[4:]) {
			formula = x
		}
	}
	flush()
	b.s.paragraph()
}

// trimmed is a row without the empty cells at its end.
func trimmed(cells []string) []string {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}

func holdsCells(id uint16) bool {
	switch id {
	case xlsFormula, xlsMulRK, xlsLabelSST, xlsNumber, xlsLabel, xlsBoolErr, xlsRK:
		return true
	}
	return false
}

// isText says of a formula, from its format on, that its result follows.
func isText(data []byte) bool {
	return len(data) >= 10 && data[2] == 0 && binary.LittleEndian.Uint16(data[8:]) == 0xffff
}

// cell is the text of one cell; data begins with its format and is at least four
// bytes long.
func (b *book) cell(id uint16, data []byte) string {
	rest := data[2:]
	switch {
	case id == xlsLabel:
		return (&runs{parts: [][]byte{rest}}).text(2)
	case id == xlsBoolErr && len(rest) >= 2:
		return boolOrError(rest[0], rest[1] != 0)
	case id == xlsRK && len(rest) >= 4:
		return b.number(data, rk(binary.LittleEndian.Uint32(rest)))
	case id == xlsLabelSST && len(rest) >= 4:
		if i := binary.LittleEndian.Uint32(rest); uint64(i) < uint64(len(b.strings)) {
			return b.strings[i]
		}
	case id == xlsFormula && len(rest) >= 8 && binary.LittleEndian.Uint16(rest[6:]) == 0xffff:
		if kind := rest[0]; kind == 1 || kind == 2 {
			return boolOrError(rest[2], kind == 2)
		}
	case (id == xlsNumber || id == xlsFormula) && len(rest) >= 8:
		return b.number(data, math.Float64frombits(binary.LittleEndian.Uint64(rest)))
	}
	return ""
}

// xlsErrors are the errors that a cell may show ([MS-XLS] 2.5.10).
var xlsErrors = map[byte]string{0x00: "#NULL!", 0x07: "#DIV/0!", 0x0f: "#VALUE!", 0x17: "#REF!", 0x1d: "#NAME?",
	0x24: "#NUM!", 0x2a: "#N/A"}

func boolOrError(v byte, wrong bool) string {
	switch {
	case wrong:
		return cmp.Or(xlsErrors[v], "#ERROR")
	case v != 0:
		return "TRUE"
	}
	return "FALSE"
}

// rk is a number in four bytes ([MS-XLS] 2.5.217).
func rk(v uint32) float64 {
	var f float64
	if v&2 != 0 {
		f = float64(int32(v) >> 2)
	} else {
		f = math.Float64frombits(uint64(v&^3) << 32)
	}
	if v&1 != 0 {
		f /= 100
	}
	return f
}

// number writes a number as a date where its cell's format, which format begins
// with, is one, and otherwise with the digits that a spreadsheet keeps.
func (b *book) number(format []byte, v float64) string {
	as := asNumber
	if xf := int(binary.LittleEndian.Uint16(format)); xf < len(b.cells) {
		nr := b.cells[xf]
		var own bool
		if as, own = b.formats[nr]; !own {
			as = builtIn(nr)
		}
	}
	const lastDay = 2958466 // of year 9999
	if as == asNumber || v < 0 || !(v < lastDay) {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64)
		if a := math.Abs(rounded); a != 0 && (a < 1e-9 || a >= 1e15) {
			return strconv.FormatFloat(rounded, 'g', -1, 64)
		}
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	day, part := math.Modf(v)
	if day < 60 && b.from.Year() == 1899 {
		day++ // Excel has a 29 February 1900, which is day 60
	}
	t := b.from.AddDate(0, 0, int(day)).Add(time.Duration(math.Round(part*86400)) * time.Second)
	return t.Format([...]string{asDate: "2006-01-02", asTime: "15:04:05", asDateTime: "2006-01-02 15:04:05"}[as])
}

// builtIn is the shape of formats that need not be written down.
func builtIn(nr uint16) shape {
	switch {
	case nr >= 14 && nr <= 17, nr >= 27 && nr <= 31, nr == 36, nr >= 50 && nr <= 58:
		return asDate
	case nr >= 18 && nr <= 21, nr >= 32 && nr <= 35, nr >= 45 && nr <= 47:
		return asTime
	case nr == 22:
		return asDateTime
	}
	return asNumber
}

// shapeOf looks for the letters of dates and times in a number format, outside of quotes. A
// month's m and a minute's are the same; they change nothing.
func shapeOf(format string) shape {
	var date, clock, quoted bool
	bracket := 0
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\\' || c == '_' || c == '*':
			i++
		case c == '[':
			bracket++
		case c == ']':
			bracket--
		case bracket > 0:
		case c == 'y' || c == 'd' || c == 'Y' || c == 'D':
			date = true
		case c == 'h' || c == 's' || c == 'H' || c == 'S':
			clock = true
		case c == ';':
			i = len(format) // the rest is for negative numbers
		}
	}
	switch {
	case date && clock:
		return asDateTime
	case date:
		return asDate
	case clock:
		return asTime
	}
	return asNumber
}

// runs reads strings out of a record and of its continuations.
type runs struct {
	parts [][]byte
}

func (r *runs) ended() bool {
	for len(r.parts) > 0 && len(r.parts[0]) == 0 {
		r.parts = r.parts[1:]
	}
	return len(r.parts) == 0
}

// take is the next n bytes, fewer at the end.
func (r *runs) take(n int) (b []byte) {
	for n > 0 && !r.ended() {
		k := min(n, len(r.parts[0]))
		if b == nil && k == n {
			b = r.parts[0][:k:k]
		} else {
			b = append(b, r.parts[0][:k]...)
		}
		r.parts[0] = r.parts[0][k:]
		n -= k
	}
	return b
}

// skip is take for unused bytes; n is a claim of the file's.
func (r *runs) skip(n int64) {
	for n > 0 && !r.ended() {
		k := min(n, int64(len(r.parts[0])))
		r.parts[0] = r.parts[0][k:]
		n -= k
	}
}

// text reads a string whose length takes one byte or two ([MS-XLS] 2.5.293). Its
// characters are one byte wide or two, which every record may say anew.
func (r *runs) text(lengthBytes int) string {
	var head [3]byte
	copy(head[:], r.take(lengthBytes))
	n := int(binary.LittleEndian.Uint16(head[:]))
	if lengthBytes == 1 {
		n = int(head[0])
	}
	flags := first(r.take(1))
	var formats, extra int64
	if flags&8 != 0 {
		formats = 4 * int64(number(r.take(2)))
	}
	if flags&4 != 0 {
		extra = int64(number(r.take(4)))
	}
	units := make([]uint16, 0, min(n, 1<<15))
	for n > 0 && !r.ended() {
		width := 1 + int(flags&1)
		b := r.parts[0]
		k := min(n, len(b)/width)
		for i := range k {
			if width == 1 {
				units = append(units, uint16(b[i]))
			} else {
				units = append(units, binary.LittleEndian.Uint16(b[2*i:]))
			}
		}
		n -= k
		if r.parts[0] = b[k*width:]; n > 0 { // the rest is in the next record, behind its own flags
			r.parts = r.parts[1:]
			flags = first(r.take(1))
		}
	}
	r.skip(formats)
	r.skip(extra)
	return string(utf16.Decode(units))
}

func first(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func number(b []byte) (n uint32) {
	for i, c := range b {
		n |= uint32(c) << (8 * i)
	}
	return n
}
