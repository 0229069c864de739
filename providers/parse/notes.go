package parse

import (
	"slices"
	"strings"
	"unicode"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"
)

const (
	// maxNotes bounds the annotations of a page that are read.
	maxNotes = 5000
	// maxPlaced is how many characters of annotations are put in their places on a
	// page; more of them follow the page's text.
	maxPlaced = 20_000
	// maxOptions bounds the options of a list that are read.
	maxOptions = 1000
)

// note is the visible text of an annotation on a page: the value of a field, text that was
// written upon the page, a stamp.
type note struct {
	left, bottom, right, top float64
	// drawn says that it has a picture of its own, whose text is the visible one. Of any
	// other, text is the one that it would show.
	drawn bool
	text  string
}

// textless are the annotations that show no text, even if they contain some.
var textless = map[enums.FPDF_ANNOTATION_SUBTYPE]bool{
	enums.FPDF_ANNOT_SUBTYPE_LINK: true, enums.FPDF_ANNOT_SUBTYPE_POPUP: true, enums.FPDF_ANNOT_SUBTYPE_TEXT: true,
	enums.FPDF_ANNOT_SUBTYPE_HIGHLIGHT: true, enums.FPDF_ANNOT_SUBTYPE_UNDERLINE: true,
	enums.FPDF_ANNOT_SUBTYPE_SQUIGGLY: true, enums.FPDF_ANNOT_SUBTYPE_STRIKEOUT: true,
	enums.FPDF_ANNOT_SUBTYPE_INK: true, enums.FPDF_ANNOT_SUBTYPE_FILEATTACHMENT: true,
	enums.FPDF_ANNOT_SUBTYPE_SOUND: true, enums.FPDF_ANNOT_SUBTYPE_MOVIE: true,
}

// unseen are the flags of annotations that a screen does not show.
const unseen = enums.FPDF_ANNOT_FLAG_HIDDEN | enums.FPDF_ANNOT_FLAG_NOVIEW

// notes are the annotations of a page that people see as text.
func (r *pdfReader) notes(page references.FPDF_PAGE) (all []note, err error) {
	of := requests.Page{ByReference: &page}
	count, err := r.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: of})
	if err != nil {
		return nil, err
	}
	for i := range min(count.Count, maxNotes) {
		got, err := r.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: of, Index: i})
		if err != nil {
			continue // no note
		}
		n, err := r.note(got.Annotation)
		if err != nil {
			return nil, err
		}
		if n.drawn || strings.TrimSpace(n.text) != "" {
			all = append(all, n)
		}
		if _, err = r.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: got.Annotation}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// note reads one annotation.
func (r *pdfReader) note(a references.FPDF_ANNOTATION) (n note, err error) {
	kind, err := r.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: a})
	if err != nil || textless[kind.Subtype] {
		return n, err
	}
	flags, err := r.FPDFAnnot_GetFlags(&requests.FPDFAnnot_GetFlags{Annotation: a})
	if err != nil || flags.Flags&unseen != 0 {
		return n, err
	}
	if rect, err := r.FPDFAnnot_GetRect(&requests.FPDFAnnot_GetRect{Annotation: a}); err == nil {
		at := rect.Rect
		n.left, n.right = float64(min(at.Left, at.Right)), float64(max(at.Left, at.Right))
		n.bottom, n.top = float64(min(at.Bottom, at.Top)), float64(max(at.Bottom, at.Top))
	}
	drawn, err := r.FPDFAnnot_HasKey(&requests.FPDFAnnot_HasKey{Annotation: a, Key: "AP"})
	if err != nil {
		return n, err
	}
	switch n.drawn = drawn.HasKey; {
	case n.drawn:
	case kind.Subtype == enums.FPDF_ANNOT_SUBTYPE_FREETEXT:
		said, err := r.FPDFAnnot_GetStringValue(&requests.FPDFAnnot_GetStringValue{Annotation: a, Key: "Contents"})
		if err == nil {
			n.text = said.Value
		}
	case kind.Subtype == enums.FPDF_ANNOT_SUBTYPE_WIDGET:
		n.text, err = r.value(a)
	}
	return n, err
}

// value is the text that a field without a picture would show: its own, or the chosen
// options.
func (r *pdfReader) value(a references.FPDF_ANNOTATION) (string, error) {
	if r.form == "" {
		form, err := r.FPDFDOC_InitFormFillEnvironment(&requests.FPDFDOC_InitFormFillEnvironment{
			Document: r.doc, FormFillInfo: nobody,
		})
		if err != nil {
			return "", err
		}
		r.form = form.FormHandle
	}
	kind, err := r.FPDFAnnot_GetFormFieldType(&requests.FPDFAnnot_GetFormFieldType{FormHandle: r.form, Annotation: a})
	if err != nil {
		return "", nil // a field of no form
	}
	switch kind.FormFieldType {
	case enums.FPDF_FORMFIELD_TYPE_TEXTFIELD:
	case enums.FPDF_FORMFIELD_TYPE_COMBOBOX, enums.FPDF_FORMFIELD_TYPE_LISTBOX:
		if chosen := r.chosen(a); chosen != "" {
			return chosen, nil
		}
	default:
		return "", nil
	}
	const password = 1 << 13
	flags, err := r.FPDFAnnot_GetFormFieldFlags(&requests.FPDFAnnot_GetFormFieldFlags{FormHandle: r.form, Annotation: a})
	if err != nil || flags.Flags&password != 0 {
		return "", nil
	}
	value, err := r.FPDFAnnot_GetFormFieldValue(&requests.FPDFAnnot_GetFormFieldValue{FormHandle: r.form, Annotation: a})
	if err != nil {
		return "", nil
	}
	return value.FormFieldValue, nil
}

// leaveForm closes the form. The library keeps the instance of every form until then.
func (r *pdfReader) leaveForm() {
	if r.form != "" {
		_, _ = r.FPDFDOC_ExitFormFillEnvironment(&requests.FPDFDOC_ExitFormFillEnvironment{FormHandle: r.form})
	}
}

// chosen are the options of a list that are selected.
func (r *pdfReader) chosen(a references.FPDF_ANNOTATION) string {
	count, err := r.FPDFAnnot_GetOptionCount(&requests.FPDFAnnot_GetOptionCount{FormHandle: r.form, Annotation: a})
	if err != nil {
		return ""
	}
	var all []string
	for i := range min(count.OptionCount, maxOptions) {
		is, err := r.FPDFAnnot_IsOptionSelected(&requests.FPDFAnnot_IsOptionSelected{FormHandle: r.form, Annotation: a, Index: i})
		if err != nil || !is.IsOptionSelected {
			continue
		}
		label, err := r.FPDFAnnot_GetOptionLabel(&requests.FPDFAnnot_GetOptionLabel{FormHandle: r.form, Annotation: a, Index: i})
		if err == nil {
			all = append(all, label.OptionLabel)
		}
	}
	return strings.Join(all, "\n")
}

// nobody is a form-fill environment without a user.
var nobody = structs.FPDF_FORMFILLINFO{
	FFI_Invalidate:         func(references.FPDF_PAGE, float64, float64, float64, float64) {},
	FFI_SetCursor:          func(enums.FXCT) {},
	FFI_SetTimer:           func(int, func(int)) int { return 0 },
	FFI_KillTimer:          func(int) {},
	FFI_GetLocalTime:       func() structs.FPDF_SYSTEMTIME { return structs.FPDF_SYSTEMTIME{} },
	FFI_GetPage:            func(references.FPDF_DOCUMENT, int) *references.FPDF_PAGE { return nil },
	FFI_GetRotation:        func(references.FPDF_PAGE) enums.FPDF_PAGE_ROTATION { return enums.FPDF_PAGE_ROTATION_NONE },
	FFI_ExecuteNamedAction: func(string) {},
}

// withNotes is the text of a page with its notes in their places.
func (r *pdfReader) withNotes(plain *pdfPage, notes []note, index int) (string, error) {
	text, err := r.readText(plain, 0, plain.chars)
	if err != nil || len(notes) == 0 {
		return text, err
	}
	var added []note
	if slices.ContainsFunc(notes, func(n note) bool { return n.drawn }) {
		// The pictures become part of the page, behind its older content.
		_, err := r.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: requests.Page{ByReference: &plain.page}})
		if err != nil {
			return "", err
		}
		whole, err := r.load(index)
		if err != nil {
			return "", err
		}
		if whole != nil {
			before, err := r.readText(whole, 0, min(plain.chars, whole.chars))
			if err != nil {
				return "", err
			}
			if before != text || whole.chars-plain.chars > maxPlaced {
				if text, err = r.readText(whole, 0, whole.chars); err != nil {
					return "", err
				}
			} else if added, err = r.drawn(whole, plain.chars, notes); err != nil {
				return "", err
			}
			if err := r.close(whole); err != nil {
				return "", err
			}
		}
	}
	for _, n := range notes {
		if !n.drawn {
			added = append(added, n)
		}
	}
	return r.insert(plain, text, added)
}

// drawn splits the text of the notes' pictures by note: the characters of a page from
// one on.
func (r *pdfReader) drawn(p *pdfPage, from int, notes []note) (all []note, err error) {
	var chars []rune
	keep := func() {
		if len(all) > 0 {
			all[len(all)-1].text = string(chars)
		}
		chars = chars[:0]
	}
	last := -2
	for i := from; i < p.chars; i++ {
		c, err := r.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: p.text, Index: i})
		if err != nil {
			return nil, err
		}
		char := rune(c.Unicode)
		if !unicode.IsSpace(char) {
			at := -1
			if box, err := r.FPDFText_GetCharBox(&requests.FPDFText_GetCharBox{TextPage: p.text, Index: i}); err == nil {
				x, y := (box.Left+box.Right)/2, (box.Bottom+box.Top)/2
				at = slices.IndexFunc(notes, func(n note) bool {
					return n.drawn && x >= n.left && x <= n.right && y >= n.bottom && y <= n.top
				})
			}
			if at < 0 && last >= 0 {
				at = last // an accent may stick out
			}
			if at != last {
				keep()
				all = append(all, note{})
				if last = at; at >= 0 {
					all[len(all)-1] = notes[at]
				}
			}
		}
		chars = append(chars, char)
	}
	keep()
	return all, nil
}

// insert puts notes beside the text that they are next to: the value of a field is behind
// its label.
func (r *pdfReader) insert(p *pdfPage, text string, notes []note) (string, error) {
	type place struct {
		at   int
		text string
	}
	var places []place
	for _, n := range notes {
		value := strings.TrimSpace(n.text)
		if value == "" {
			continue
		}
		shown, err := r.FPDFText_GetBoundedText(&requests.FPDFText_GetBoundedText{TextPage: p.text,
			Left: n.left - 1, Top: n.top + 1, Right: n.right + 1, Bottom: n.bottom - 1})
		if err != nil {
			return "", err
		}
		if strings.Contains(squeezed(shown.Text), squeezed(value)) {
			continue // it lies upon the same text
		}
		at, err := r.beside(p, &n)
		if err != nil {
			return "", err
		}
		places = append(places, place{at, value})
	}
	if len(places) == 0 {
		return text, nil
	}
	slices.SortStableFunc(places, func(a, b place) int { return a.at - b.at })
	var b strings.Builder
	from := 0
	for _, at := range places {
		piece, err := r.readText(p, from, at.at)
		if err != nil {
			return "", err
		}
		b.WriteString(piece)
		if from = at.at; at.at == p.chars {
			b.WriteString("\n")
		}
		b.WriteString(" " + at.text + " ")
	}
	rest, err := r.readText(p, from, p.chars)
	b.WriteString(rest)
	return b.String(), err
}

// beside is the index of the character that a note precedes.
func (r *pdfReader) beside(p *pdfPage, n *note) (int, error) {
	const wide, high = 300, 4 // half of it on each side, in points
	near, err := r.FPDFText_GetCharIndexAtPos(&requests.FPDFText_GetCharIndexAtPos{TextPage: p.text,
		X: n.left, Y: (n.bottom + n.top) / 2, XTolerance: wide, YTolerance: high})
	if err != nil || near.CharIndex < 0 || near.CharIndex >= p.chars {
		return p.chars, err
	}
	at := near.CharIndex
	box, err := r.FPDFText_GetCharBox(&requests.FPDFText_GetCharBox{TextPage: p.text, Index: at})
	if err != nil {
		return p.chars, nil
	}
	// Not within a word.
	step, last := 1, p.chars
	if box.Left >= n.left {
		step, last = -1, 0
	} else {
		at++
	}
	for ; at != last; at += step {
		c, err := r.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: p.text, Index: at + min(step, 0)})
		if err != nil {
			return 0, err
		}
		if unicode.IsSpace(rune(c.Unicode)) {
			break
		}
	}
	return at, nil
}

// squeezed is a text without white space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }
