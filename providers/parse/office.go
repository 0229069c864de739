package parse

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"

	"farebox/providers/jail"
)

// maxDepth bounds the nesting of elements: real documents stay below 60.
const maxDepth = 256

// walk reads XML and calls begin, end and text, each of which may be nil. It
// refuses DTDs, and with them entities of their own, and looks nothing up. Books
// may say which DTD they follow; Office does not.
func walk(r io.Reader, begin func(e *xml.StartElement), end func(name string), text func(b []byte)) error {
	return walkXML(r, false, begin, end, text)
}

func walkXML(r io.Reader, doctype bool, begin func(e *xml.StartElement), end func(name string),
	text func(b []byte)) error {
	d := xml.NewDecoder(r)
	d.CharsetReader = charset.NewReaderLabel
	depth := 0
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			if depth > 0 {
				return refuse(Broken)
			}
			return nil
		}
		if err != nil {
			var said *jail.Refusal
			if errors.As(err, &said) {
				return err
			}
			return refuse(Broken)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return refuse(Broken)
			}
			if begin != nil {
				begin(&t)
			}
		case xml.EndElement:
			if depth--; depth < 0 {
				return refuse(Broken)
			}
			if end != nil {
				end(t.Name.Local)
			}
		case xml.CharData:
			if text != nil {
				text(t)
			}
		case xml.Directive:
			if !doctype || bytes.IndexByte(t, '[') >= 0 {
				return refuse(Broken)
			}
		}
	}
}

func attr(e *xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// relation is a reference of one part to another.
type relation struct{ id, kind, target string }

// maxRelations bounds the relations of one part.
const maxRelations = 20_000

// relations of a part (of the whole package where name is empty), in the file's
// order; kinds are without the address before them.
func (a *archive) relations(name string) (all []relation, err error) {
	dir, base := path.Split(clean(name))
	r, err := a.open(dir + "_rels/" + base + ".rels")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	err = walk(r, func(e *xml.StartElement) {
		if e.Name.Local != "Relationship" || attr(e, "TargetMode") == "External" || len(all) >= maxRelations {
			return
		}
		target := attr(e, "Target")
		if !strings.HasPrefix(target, "/") {
			target = dir + target
		}
		all = append(all, relation{attr(e, "Id"), path.Base(attr(e, "Type")), clean(target)})
	}, nil, nil)
	return all, err
}

// main is the part that an office document begins with.
func (a *archive) main() string {
	all, _ := a.relations("")
	for _, r := range all {
		if r.kind == "officeDocument" {
			return r.target
		}
	}
	return ""
}

// until ends its input with a refusal once the text is full.
type until struct {
	io.Reader
	s *sink
}

func (u until) Read(b []byte) (int, error) {
	if u.s.full {
		return 0, refuse(TooLarge)
	}
	return u.Reader.Read(b)
}

// flow gathers the text of a part of a text document or a slide. Both say t, p, tr
// and tc, in namespaces of their own.
type flow struct {
	s       *sink
	skip    string // the element whose content does not count
	skipped int    // how deep it nests in itself
	inText  int
	tables  []*grid
	styles  map[string]bool // styles whose text is hidden
	// run is within a run of text, whose text is hidden if hidden says so.
	run, hidden bool
	shape       string // the element of the last shape that began
	unseen      bool   // it is a slide that the presentation does not show
	// numbers are the lists of a text document; place is that of the paragraph whose
	// properties are read.
	numbers      *numbers
	inProperties bool
	place        listPosition
}

// officeText gathers the text of a part that people see.
func (a *archive) officeText(s *sink, name string, styles map[string]bool, lists *numbers) (unseen bool, err error) {
	r, err := a.open(name)
	if err != nil {
		return false, err
	}
	defer r.Close()
	f := &flow{s: s, styles: styles, numbers: lists}
	err = walk(until{r, s}, f.begin, f.end, func(b []byte) {
		if f.inText > 0 && f.skip == "" && !f.hidden {
			s.add(b)
		}
	})
	s.paragraph()
	s.pause()
	return f.unseen, err
}

// leaveOut drops the rest of an element that has begun.
func (f *flow) leaveOut(name string) { f.skip, f.skipped = name, 1 }

func (f *flow) begin(e *xml.StartElement) {
	if f.skip != "" {
		if e.Name.Local == f.skip {
			f.skipped++
		}
		return
	}
	switch name := e.Name.Local; name {
	// The same text again for older readers, and its earlier places and formats.
	case "Fallback", "moveFrom", "pPrChange", "rPrChange":
		f.leaveOut(name)
	case "fld":
		if attr(e, "type") == "slidenum" {
			f.leaveOut(name)
		}
	case "sld":
		if f.unseen = off(attr(e, "show")); f.unseen {
			f.leaveOut(name)
		}
	case "sp", "grpSp", "graphicFrame", "cxnSp", "pic":
		f.shape = name
	case "cNvPr":
		if hidden := attr(e, "hidden"); f.shape != "" && hidden != "" && !off(hidden) {
			f.leaveOut(f.shape)
		}
	case "r":
		f.run, f.hidden = true, false
	case "pPr":
		f.run = false // pPr has the format of the paragraph's mark, not of its text
		f.inProperties, f.place = true, listPosition{}
	case "pStyle", "numId", "ilvl":
		f.number(e)
	case "vanish":
		if f.run {
			f.hidden = !off(attr(e, "val"))
		}
	case "rStyle":
		if f.run && f.styles[attr(e, "val")] {
			f.hidden = true
		}
	case "t":
		f.inText++
	case "tab":
		if f.inText == 0 && len(e.Attr) == 0 && !f.hidden { // with attributes it defines where tabs stop
			f.s.char('\t')
		}
	case "br", "cr":
		f.s.char('\n')
	case "noBreakHyphen":
		f.s.char('-')
	case "txbxContent": // a text box amidst a paragraph
		if len(f.tables) == 0 {
			f.s.line()
		}
	case "tbl", "gridCol", "tr", "tc", "gridSpan", "vMerge":
		f.beginTable(e)
	}
}

func (f *flow) end(name string) {
	if f.skip != "" {
		if name == f.skip {
			if f.skipped--; f.skipped == 0 {
				f.skip = ""
			}
		}
		return
	}
	switch name {
	case "t":
		f.inText--
	case "r":
		f.run, f.hidden = false, false
	case "pPr":
		if f.inProperties = false; f.numbers != nil && f.place.list != "" {
			f.s.text(f.numbers.label(f.place))
		}
	case "p":
		if f.s.char('\n'); len(f.tables) == 0 {
			f.s.pause()
		}
	case "tbl", "tr", "tc":
		f.endTable(name)
	}
}

// off says that a value of XML is false.
func off(value string) bool { return value == "0" || value == "false" || value == "off" }

// readDOCX puts headers before the body, and notes and footers behind it.
func readDOCX(s *sink, a *archive) error {
	main := a.main()
	all, err := a.relations(main)
	if err != nil {
		return err
	}
	hidden := map[string]bool{}
	lists := &numbers{lists: map[string]*list{}, styles: map[string]listPosition{}}
	for _, r := range all {
		switch r.kind {
		case "styles":
			err = a.wordStyles(r.target, hidden, lists)
		case "numbering":
			err = a.numbering(r.target, lists)
		}
		if err != nil {
			return err
		}
	}
	seen, read := map[string]bool{}, map[string]bool{} // sections repeat headers
	of := func(kinds ...string) error {
		for _, kind := range kinds {
			for _, r := range all {
				if r.kind != kind || read[r.target] {
					continue
				}
				read[r.target] = true
				at := &sink{}
				if _, err := a.officeText(at, r.target, hidden, nil); err != nil {
					return err
				}
				if text := string(at.take()); !seen[text] {
					seen[text] = true
					s.text(text)
					s.paragraph()
				}
			}
		}
		return nil
	}
	if err := of("header"); err != nil {
		return err
	}
	if _, err := a.officeText(s, main, hidden, lists); err != nil {
		return err
	}
	for _, r := range all {
		if r.kind == "diagramData" || r.kind == "chart" {
			if err := a.drawn(s, r); err != nil {
				return err
			}
		}
	}
	return of("footnotes", "endnotes", "footer")
}

// drawn reads the target of a relation: a chart, or another part with text.
func (a *archive) drawn(s *sink, r relation) error {
	if r.kind == "chart" {
		return a.chartText(s, r.target)
	}
	_, err := a.officeText(s, r.target, nil, nil)
	return err
}

// wordStyles adds the styles that hide text, and those that number paragraphs.
func (a *archive) wordStyles(name string, hidden map[string]bool, lists *numbers) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	id, kind := "", ""
	return walk(r, func(e *xml.StartElement) {
		switch e.Name.Local {
		case "style":
			id, kind = attr(e, "styleId"), attr(e, "type")
		case "vanish":
			if kind == "character" && !off(attr(e, "val")) {
				hidden[id] = true
			}
		case "numId", "ilvl":
			if kind != "paragraph" {
				return
			}
			at := lists.styles[id]
			if e.Name.Local == "numId" {
				at.list = attr(e, "val")
			} else {
				level, _ := strconv.Atoi(attr(e, "val"))
				at.level = min(max(level, 0), maxLevels-1)
			}
			lists.styles[id] = at
		}
	}, nil, nil)
}

// readPPTX follows the order of the presentation, each slide with its notes. Slides
// that the presentation skips are left out.
func readPPTX(s *sink, a *archive) error {
	main := a.main()
	all, err := a.relations(main)
	if err != nil {
		return err
	}
	slides := map[string]string{}
	for _, r := range all {
		slides[r.id] = r.target
	}
	var order []string
	r, err := a.open(main)
	if err != nil {
		return err
	}
	defer r.Close()
	err = walk(r, func(e *xml.StartElement) {
		if e.Name.Local != "sldId" {
			return
		}
		for _, at := range e.Attr {
			if slide := slides[at.Value]; at.Name.Local == "id" && at.Name.Space != "" && slide != "" {
				order = append(order, slide)
				delete(slides, at.Value) // each once
			}
		}
	}, nil, nil)
	if err != nil {
		return err
	}
	for i, slide := range order {
		s.page(i, len(order))
		unseen, err := a.officeText(s, slide, nil, nil)
		if err != nil {
			return err
		}
		parts, err := a.relations(slide)
		if err != nil {
			return err
		}
		if unseen {
			continue
		}
		read := map[string]bool{slide: true}
		for _, kind := range []string{"diagramData", "chart", "notesSlide"} {
			for _, r := range parts {
				if r.kind != kind || read[r.target] {
					continue
				}
				read[r.target] = true
				if err := a.drawn(s, r); err != nil {
					return err
				}
			}
		}
	}
	s.page(len(order), len(order))
	return nil
}
