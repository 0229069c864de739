package parse

import (
	"bytes"
	"encoding/xml"
	"io"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"
)

// maxSheets is all that is unpacked of a workbook: its reader holds it at once.
const maxSheets = 128 << 20

// readXLSX writes each sheet under its name as a table, as a spreadsheet shows it: without
// rows, columns and sheets that are hidden.
func readXLSX(s *sink, a *archive) error {
	// The readable part of a damaged part is taken for all of it.
	v := tags{sheets: map[string]*layout{}}
	if err := a.sound(".xml", v.see); err != nil {
		return err
	}
	if !v.found {
		return refuse(NoText) // millions of empty cells would be seconds of work
	}
	hidden, parts, err := a.sheets()
	if err != nil {
		return err
	}
	// Below its second limit the reader makes no temporary files, which it could
	// not do here.
	f, err := excelize.OpenReader(bytes.NewReader(a.doc), excelize.Options{
		UnzipSizeLimit: maxSheets, UnzipXMLSizeLimit: maxSheets,
		ShortDatePattern: "yyyy-mm-dd", // which spreadsheets show as their country does
	})
	if err != nil {
		if strings.Contains(err.Error(), "unzip size exceeds") {
			return refuse(TooLarge)
		}
		return refuse(Broken)
	}
	for _, name := range f.GetSheetList() {
		rows, err := f.Rows(name)
		if err != nil || hidden[name] {
			continue // a chart has no rows
		}
		at := v.sheets[parts[name]]
		if at == nil {
			at = &layout{}
		}
		out := sheet{s: s, name: name, layout: at}
		for y := 1; rows.Next() && !s.full; y++ {
			cells, err := rows.Columns()
			if err != nil {
				return refuse(Broken)
			}
			if !rows.GetRowOpts().Hidden {
				out.row(y, cells)
			}
		}
		if err := rows.Error(); err != nil {
			return refuse(Broken)
		}
		s.paragraph()
	}
	return nil
}

// sheets finds the hidden sheets of a workbook, and the parts of all.
func (a *archive) sheets() (hidden map[string]bool, parts map[string]string, err error) {
	main := a.main()
	all, err := a.relations(main)
	if err != nil {
		return nil, nil, err
	}
	targets := map[string]string{}
	for _, r := range all {
		targets[r.id] = r.target
	}
	r, err := a.open(main)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	hidden, parts = map[string]bool{}, map[string]string{}
	err = walk(r, func(e *xml.StartElement) {
		if e.Name.Local != "sheet" {
			return
		}
		name, state := attr(e, "name"), attr(e, "state")
		hidden[name] = state == "hidden" || state == "veryHidden"
		parts[name] = targets[attr(e, "id")]
	}, nil, nil)
	return hidden, parts, err
}

// sheet writes rows, and before the first that is not empty its name.
type sheet struct {
	s     *sink
	name  string
	rows  markdown
	named bool
	*layout
}

// row writes the row of number y, which counts from 1, as far as it is seen.
func (h *sheet) row(y int, cells []string) {
	shown := cells[:0]
	empty := true
	for x, cell := range cells {
		if h.hides(x + 1) {
			continue
		}
		if cell != "" && h.covers(x+1, y) {
			cell = ""
		}
		empty = empty && cell == ""
		shown = append(shown, cell)
	}
	if empty {
		return
	}
	if !h.named {
		h.s.paragraph()
		h.s.text(h.name)
		h.s.text("\n\n")
		h.named = true
		for x := 1; x <= min(h.width, maxHead); x++ {
			if !h.hides(x) {
				h.rows.head++
			}
		}
	}
	h.rows.add(h.s, shown)
	h.s.pause()
}

// layout is how a sheet shows its cells. Rows and columns count from 1.
type layout struct {
	width  int // columns
	hidden [][2]int
	merged [][4]int // columns from, to; rows from, to
}

// maxLayout is how many hidden columns, and how many merged cells, a sheet may have: the
// others look like any.
const maxLayout = 1000

func (l *layout) hides(x int) bool {
	for _, h := range l.hidden {
		if x >= h[0] && x <= h[1] {
			return true
		}
	}
	return false
}

// covers says that a cell lies beneath another one that it was merged with.
func (l *layout) covers(x, y int) bool {
	for _, m := range l.merged {
		if x >= m[0] && x <= m[1] && y >= m[2] && y <= m[3] && (x > m[0] || y > m[2]) {
			return true
		}
	}
	return false
}

// tags looks at the tags of the parts that may be sheets without taking them apart. found
// says that there is the end of a value (</v>, </x:v>) or of an inline text (</t>): without
// one all cells are empty.
type tags struct {
	found  bool
	sheets map[string]*layout
	at     string // the part
	in     bool   // a tag has begun
	tag    []byte
}

// maxTag bounds the part of a tag that is read.
const maxTag = 512

func (t *tags) see(name string) io.Writer {
	t.at, t.in = name, false
	if strings.HasSuffix(name, "sharedStrings.xml") {
		return io.Discard
	}
	return t
}

func (t *tags) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if !t.in {
			i := bytes.IndexByte(p, '<')
			if i < 0 {
				break
			}
			p, t.in, t.tag = p[i+1:], true, t.tag[:0]
			continue
		}
		i := bytes.IndexByte(p, '>')
		piece := p
		if i >= 0 {
			piece = p[:i]
		}
		t.tag = append(t.tag, piece[:min(len(piece), maxTag-len(t.tag))]...)
		if i < 0 {
			break
		}
		p, t.in = p[i+1:], false
		t.readTag()
	}
	return n, nil
}

// readTag reads the needed attributes of a tag.
func (t *tags) readTag() {
	name, attributes, _ := bytes.Cut(t.tag, []byte(" "))
	name, ends := bytes.CutPrefix(name, []byte("/"))
	if i := bytes.IndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	switch string(name) {
	case "v", "t":
		t.found = t.found || ends
		return
	case "col", "mergeCell", "dimension":
	default:
		return
	}
	at := t.sheets[t.at]
	if at == nil {
		at = &layout{}
		t.sheets[t.at] = at
	}
	value := func(key string) string {
		_, rest, ok := bytes.Cut(append([]byte(" "), attributes...), []byte(" "+key+"="))
		if !ok || len(rest) == 0 {
			return ""
		}
		text, _, _ := bytes.Cut(rest[1:], rest[:1])
		return string(text)
	}
	switch string(name) {
	case "col":
		from, err := strconv.Atoi(value("min"))
		to, failed := strconv.Atoi(value("max"))
		hidden := value("hidden")
		if err == nil && failed == nil && hidden != "" && !off(hidden) && len(at.hidden) < maxLayout {
			at.hidden = append(at.hidden, [2]int{from, to})
		}
	case "mergeCell", "dimension":
		first, last, _ := strings.Cut(value("ref"), ":")
		left, top, err := excelize.CellNameToCoordinates(first)
		right, bottom, failed := excelize.CellNameToCoordinates(last)
		switch {
		case err != nil || failed != nil:
		case string(name) == "dimension":
			at.width = right
		case len(at.merged) < maxLayout:
			at.merged = append(at.merged, [4]int{left, right, top, bottom})
		}
	}
}
