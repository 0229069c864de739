package parse

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// maxLevels is how deep lists nest (ECMA-376, 17.9.6).
const maxLevels = 9

// level is the numbering of a list's items at one depth.
type level struct {
	format, text string
	start        int
}

// list is a list of a text document: its levels, and the numbers that were given last.
type list struct {
	levels [maxLevels]level
	last   *[maxLevels]int // one more than that, 0: no item yet; lists of one kind share them
}

// listPosition is the place of a paragraph in a list.
type listPosition struct {
	list  string
	level int
}

// numbers are the lists of a text document.
type numbers struct {
	lists  map[string]*list
	styles map[string]listPosition // of paragraphs whose style says it
}

// numbering reads the part that defines lists.
func (a *archive) numbering(name string, n *numbers) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	kinds := map[string]*list{}
	now, id, at := &list{}, "", 0
	return walk(r, func(e *xml.StartElement) {
		value := attr(e, "val")
		switch e.Name.Local {
		case "abstractNum":
			now = &list{last: &[maxLevels]int{}}
			kinds[attr(e, "abstractNumId")] = now
		case "num":
			now, id = &list{}, attr(e, "numId")
		case "abstractNumId":
			if kind := kinds[value]; kind != nil && id != "" {
				one := *kind
				now, n.lists[id] = &one, &one
			}
		case "lvl", "lvlOverride":
			at, _ = strconv.Atoi(attr(e, "ilvl"))
			at = min(max(at, 0), maxLevels-1)
		case "start":
			now.levels[at].start, _ = strconv.Atoi(value)
		case "startOverride":
			now.levels[at].start, _ = strconv.Atoi(value)
			now.last = &[maxLevels]int{}
		case "numFmt":
			now.levels[at].format = value
		case "lvlText":
			now.levels[at].text = value
		}
	}, nil, nil)
}

// label is the number or the bullet of the next item of a list.
func (n *numbers) label(p listPosition) string {
	in := n.lists[p.list]
	if in == nil || in.last == nil {
		return ""
	}
	at := in.levels[p.level]
	if at.format == "bullet" {
		return "- "
	}
	in.last[p.level] = 1 + in.next(p.level)
	clear(in.last[p.level+1:])
	label := at.text
	for i := range p.level + 1 {
		if key := "%" + strconv.Itoa(i+1); strings.Contains(label, key) {
			label = strings.ReplaceAll(label, key, numeral(in.levels[i].format, in.given(i)))
		}
	}
	if label == "" {
		return ""
	}
	return label + " "
}

// next is the number of the next item at a depth, and given that of the last.
func (l *list) next(at int) int {
	if l.last[at] == 0 {
		return l.levels[at].start
	}
	return l.last[at]
}

func (l *list) given(at int) int {
	if l.last[at] == 0 {
		return l.levels[at].start
	}
	return l.last[at] - 1
}

// numeral writes a number in the format of a list.
func numeral(format string, n int) string {
	switch {
	case format == "none":
		return ""
	case strings.HasSuffix(format, "Letter") && n > 0 && n <= 26*20:
		text := strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1)
		if format == "upperLetter" {
			return strings.ToUpper(text)
		}
		return text
	case strings.HasSuffix(format, "Roman") && n > 0 && n < 4000:
		text := roman(n)
		if format == "lowerRoman" {
			return strings.ToLower(text)
		}
		return text
	case format == "decimalZero" && n < 10:
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

func roman(n int) (text string) {
	for _, r := range []struct {
		n    int
		text string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"},
		{5, "V"}, {4, "IV"}, {1, "I"}} {
		for ; n >= r.n; n -= r.n {
			text += r.text
		}
	}
	return text
}

// number reads the list position of a paragraph from its properties.
func (f *flow) number(e *xml.StartElement) {
	if f.numbers == nil || !f.inProperties {
		return
	}
	value := attr(e, "val")
	switch e.Name.Local {
	case "pStyle":
		f.place = f.numbers.styles[value]
	case "numId":
		f.place.list = value
	case "ilvl":
		level, _ := strconv.Atoi(value)
		f.place.level = min(max(level, 0), maxLevels-1)
	}
}
