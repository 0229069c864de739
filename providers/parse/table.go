package parse

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// maxSpan is how many columns one cell may cover, and maxHead how many columns a head
// row is widened to.
const maxSpan, maxHead = 64, 256

// grid is a table of a text document or a slide while it is read.
type grid struct {
	// plain says that its cells flow like text: there is one column, which frames text.
	plain bool
	// inner says that it is in a cell of another table, whose text it is part of.
	inner   bool
	columns int // as it says itself
	rows    markdown
	cells   []string
	start   int // of the cell's text
	span    int // columns that the cell covers
	covered bool
}

func (f *flow) beginTable(e *xml.StartElement) {
	if e.Name.Local == "tbl" {
		g := &grid{}
		for _, outer := range f.tables {
			g.inner = g.inner || !outer.plain
		}
		if !g.inner {
			f.s.paragraph()
		}
		f.tables = append(f.tables, g)
		return
	}
	if len(f.tables) == 0 {
		return
	}
	g := f.tables[len(f.tables)-1]
	switch e.Name.Local {
	case "gridCol":
		g.columns++
	case "tr":
		if g.rows.head == 0 {
			g.plain = !g.inner && g.columns == 1
			g.rows.head = min(max(g.columns, 1), maxHead)
		}
		g.cells = g.cells[:0]
	case "tc":
		g.start, g.span = len(f.s.buf), 1
		g.covered = covers(e, "vMerge") || covers(e, "hMerge")
	case "gridSpan":
		if n, err := strconv.Atoi(attr(e, "val")); err == nil {
			g.span = min(max(n, 1), maxSpan)
		}
	case "vMerge":
		g.covered = attr(e, "val") != "restart"
	}
}

// covers says that a cell lies beneath another one.
func covers(e *xml.StartElement, how string) bool {
	value := attr(e, how)
	return value != "" && !off(value)
}

func (f *flow) endTable(name string) {
	if len(f.tables) == 0 {
		return
	}
	g := f.tables[len(f.tables)-1]
	switch {
	case name == "tbl":
		f.tables = f.tables[:len(f.tables)-1]
		if !g.inner {
			f.s.paragraph()
		}
	case g.plain || g.inner:
		if f.s.line(); g.plain && len(f.tables) == 1 {
			f.s.pause()
		}
	case name == "tc":
		start := min(g.start, len(f.s.buf))
		text := string(f.s.buf[start:])
		if f.s.buf = f.s.buf[:start]; g.covered {
			text = ""
		}
		g.cells = append(g.cells, text)
		for range g.span - 1 {
			g.cells = append(g.cells, "")
		}
	default:
		if g.rows.add(f.s, g.cells); len(f.tables) == 1 {
			f.s.pause()
		}
	}
}

// markdown writes rows of a table, of which the first is the head.
type markdown struct {
	head  int // columns of the head at least
	begun bool
}

// add writes a row that is not empty.
func (m *markdown) add(s *sink, cells []string) {
	last := len(cells)
	for last > 0 && strings.TrimSpace(cells[last-1]) == "" {
		last--
	}
	if last == 0 {
		return
	}
	cells = cells[:last]
	if m.begun {
		row(s, cells, last)
		return
	}
	m.begun = true
	width := max(last, m.head)
	row(s, cells, width)
	s.text("|" + strings.Repeat(" --- |", width) + "\n")
}

func row(s *sink, cells []string, width int) {
	s.char('|')
	for _, cell := range cells {
		s.char(' ')
		if cell = strings.Join(strings.Fields(cell), " "); strings.Contains(cell, "|") {
			cell = strings.ReplaceAll(cell, "|", `\|`)
		}
		if s.text(cell); cell != "" {
			s.char(' ')
		}
		s.char('|')
	}
	for range width - len(cells) {
		s.text(" |")
	}
	s.char('\n')
}
