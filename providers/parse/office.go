package parse

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"

	"golang.org/x/net/html/charset"

	"farebox/providers/jail"
)

// maxDepth is how deep elements may nest: real documents stay below 60.
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

// relation is how one part refers to another.
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

// officeText gathers the text of a part of a text document or a slide. Both say
// t, p, tr and tc, in namespaces of their own.
func (a *archive) officeText(s *sink, name string) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	skip := ""   // the element whose content does not count
	skipped := 0 // how deep it nests in itself
	inText, cells := 0, 0
	err = walk(r, func(e *xml.StartElement) {
		if skip != "" {
			if e.Name.Local == skip {
				skipped++
			}
			return
		}
		switch e.Name.Local {
		case "Fallback", "moveFrom": // the same again, for older readers or where it stood before
			skip, skipped = e.Name.Local, 1
		case "fld":
			if attr(e, "type") == "slidenum" {
				skip, skipped = "fld", 1
			}
		case "t":
			inText++
		case "tab":
			if inText == 0 && len(e.Attr) == 0 { // with attributes it defines where tabs stop
				s.char('\t')
			}
		case "br", "cr":
			if e.Name.Space != "w" || cells == 0 {
				s.char('\n')
			} else {
				s.char(' ')
			}
		case "noBreakHyphen":
			s.char('-')
		case "tc":
			cells++
		}
	}, func(name string) {
		if skip != "" {
			if name == skip {
				if skipped--; skipped == 0 {
					skip = ""
				}
			}
			return
		}
		switch name {
		case "t":
			inText--
		case "p":
			if cells > 0 {
				s.space()
			} else {
				s.char('\n')
			}
		case "tc":
			if cells--; cells == 0 {
				s.char('\t')
			}
		case "tr":
			s.line()
		}
	}, func(b []byte) {
		if inText > 0 && skip == "" {
			s.add(b)
		}
	})
	s.paragraph()
	return err
}

// readDOCX puts headers before the body, and notes and footers behind it.
func readDOCX(a *archive) ([]byte, error) {
	main := a.main()
	all, err := a.relations(main)
	if err != nil {
		return nil, err
	}
	s := &sink{}
	of := func(kinds ...string) error {
		for _, kind := range kinds {
			for _, r := range all {
				if r.kind == kind {
					if err := a.officeText(s, r.target); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	if err := of("header"); err != nil {
		return nil, err
	}
	if err := a.officeText(s, main); err != nil {
		return nil, err
	}
	if err := of("footnotes", "endnotes", "footer"); err != nil {
		return nil, err
	}
	return s.end(NoText)
}

// readPPTX follows the order of the presentation, each slide with its notes.
func readPPTX(a *archive) ([]byte, error) {
	main := a.main()
	all, err := a.relations(main)
	if err != nil {
		return nil, err
	}
	slides := map[string]string{}
	for _, r := range all {
		slides[r.id] = r.target
	}
	var order []string
	r, err := a.open(main)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	s := &sink{}
	for _, slide := range order {
		if err := a.officeText(s, slide); err != nil {
			return nil, err
		}
		parts, err := a.relations(slide)
		if err != nil {
			return nil, err
		}
		for _, r := range parts {
			if r.kind == "notesSlide" || r.kind == "diagramData" {
				if err := a.officeText(s, r.target); err != nil {
					return nil, err
				}
			}
		}
		if s.full {
			break
		}
	}
	return s.end(NoText)
}
