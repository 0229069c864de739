package parse

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"farebox/providers/jail"
)

// "Twelve kilobytes of three million empty cells keep a child busy for two seconds, and
// come to nothing."
func TestAWorkbookWithoutAValueIsNotRead(t *testing.T) {
	const cells = 3_000_000
	doc := bigPart(t, "xl/worksheets/sheet1.xml", sheetHead+"<row>", "<c/>", "</row>"+sheetTail, 4*cells, 0,
		workbookParts()...)
	a, err := openArchive(doc)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = outside(func(s *sink) error { return readXLSX(s, a) })
	runtime.ReadMemStats(&after)
	var no *jail.Refusal
	if !errors.As(err, &no) || no.Code != codes[NoText] {
		t.Errorf("%d bytes: %v", len(doc), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes of memory were used for %d bytes", took, len(doc))
	}
}

func TestValuesAreFoundInEveryForm(t *testing.T) {
	for text, want := range map[string]bool{
		sheetHead + `<row><c r="A1"><v>1</v></c></row>` + sheetTail: true,
		`<x:c><x:v>1</x:v></x:c>`:                                   true,
		`<c t="inlineStr"><is><t>a</t></is></c>`:                    true,
		`<is><r><t xml:space="preserve"> a</t></r></is>`:            true,
		sheetHead + `<row><c r="A1" s="3"/><c/></row>` + sheetTail:  false,
		`<cellXfs><xf/></cellXfs><ext></ext><font></font>`:          false,
		``: false,
	} {
		for size := 1; size <= len(text)+1; size++ {
			v := tags{sheets: map[string]*layout{}}
			w := v.see("xl/worksheets/sheet1.xml")
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				_, _ = w.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if v.found != want {
				t.Fatalf("%q in pieces of %d: %v", text, size, v.found)
			}
		}
	}
	v := tags{sheets: map[string]*layout{}}
	if _, _ = v.see("xl/sharedStrings.xml").Write([]byte(strings.Repeat("<t>a</t>", 9))); v.found {
		t.Error("shared strings are taken for values")
	}
}
