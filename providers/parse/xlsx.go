package parse

import (
	"bytes"
	"io"
	"strings"

	"github.com/xuri/excelize/v2"
)

// maxSheets is all that is unpacked of a workbook: its reader holds it at once.
const maxSheets = 128 << 20

// readXLSX writes each sheet under its name, a row a line, cells parted by tabs,
// as a spreadsheet shows them.
func readXLSX(a *archive) ([]byte, error) {
	// It takes what it gets of a damaged part for all of it.
	var v values
	if err := a.sound(".xml", v.see); err != nil {
		return nil, err
	}
	if !v.found {
		return nil, refuse(NoText) // millions of empty cells would be seconds of work
	}
	// Below its second limit the reader makes no temporary files, which it could
	// not do here.
	f, err := excelize.OpenReader(bytes.NewReader(a.doc), excelize.Options{
		UnzipSizeLimit: maxSheets, UnzipXMLSizeLimit: maxSheets,
	})
	if err != nil {
		if strings.Contains(err.Error(), "unzip size exceeds") {
			return nil, refuse(TooLarge)
		}
		return nil, refuse(Broken)
	}
	s := &sink{}
	for _, sheet := range f.GetSheetList() {
		rows, err := f.Rows(sheet)
		if err != nil {
			continue // a chart has no rows
		}
		named := false
		for rows.Next() && !s.full {
			cells, err := rows.Columns()
			if err != nil {
				return nil, refuse(Broken)
			}
			named = sheetRow(s, sheet, named, cells)
		}
		if err := rows.Error(); err != nil {
			return nil, refuse(Broken)
		}
		s.paragraph()
	}
	return s.end(NoText)
}

// sheetRow adds a row that is not empty, and before the first the sheet's name.
func sheetRow(s *sink, sheet string, named bool, cells []string) bool {
	last := len(cells)
	for last > 0 && cells[last-1] == "" {
		last--
	}
	if last == 0 {
		return named
	}
	if !named {
		s.text(sheet)
		s.char('\n')
	}
	for i, cell := range cells[:last] {
		if i > 0 {
			s.char('\t')
		}
		if strings.ContainsAny(cell, "\r\n\t") {
			cell = inLine.Replace(cell)
		}
		s.text(cell)
	}
	s.char('\n')
	return true
}

// inLine keeps a cell from breaking its row.
var inLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// values looks for the end of a value (</v>, </x:v>) or of an inline text (</t>) in the
// parts that may be sheets. Without one no cell says anything.
type values struct {
	found bool
	last  [2]byte
}

func (v *values) see(name string) io.Writer {
	v.last = [2]byte{}
	if v.found || strings.HasSuffix(name, "sharedStrings.xml") {
		return io.Discard
	}
	return v
}

func (v *values) Write(p []byte) (int, error) {
	for i := 0; !v.found; i++ {
		next := bytes.IndexByte(p[i:], '>')
		if next < 0 {
			break
		}
		i += next
		before, name := v.last[0], v.last[1] // what stands in front of p[i]
		switch {
		case i >= 2:
			before, name = p[i-2], p[i-1]
		case i == 1:
			before, name = v.last[1], p[0]
		}
		v.found = (name == 'v' || name == 't') && (before == '/' || before == ':')
	}
	for _, b := range p[max(0, len(p)-2):] {
		v.last[0], v.last[1] = v.last[1], b
	}
	return len(p), nil
}
