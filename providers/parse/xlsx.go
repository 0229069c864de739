package parse

import (
	"bytes"
	"strings"

	"github.com/xuri/excelize/v2"
)

// maxSheets is all that is unpacked of a workbook: its reader holds it at once.
const maxSheets = 128 << 20

// readXLSX writes each sheet under its name, a row a line, cells parted by tabs,
// as a spreadsheet shows them.
func readXLSX(a *archive) ([]byte, error) {
	// It takes what it gets of a damaged part for all of it.
	if err := a.sound(".xml"); err != nil {
		return nil, err
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
