package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Chart is one plot: lines over a numeric axis, or bars in groups.
type Chart struct {
	Title string
	X, Y  string // names of the axes
	LogX  bool
	LogY  bool
	// Nines stretches the upper percentiles: 90, 99 and 99.9 lie equally far
	// apart.
	Nines  bool
	Lines  []Line
	Groups []Group // bars instead of lines
	Goal   float64 // a mark across a bar chart; 0: no mark
}

// Line is a series; Color picks one of the fixed colours.
type Line struct {
	Name   string
	Color  int
	Points [][2]float64
}

// Group is bars side by side with a name below; the order is that of the names.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one value of a group; Limit draws the goal across this bar.
type Bar struct {
	Name  string
	Color int
	Value float64
	Limit float64
}

const (
	width, height          = 560.0, 300.0
	left, right, top, foot = 62.0, 14.0, 10.0, 40.0
	colors                 = 9
	lastNine               = 5.0 // 99.999 is the right edge
)

func (c Chart) empty() bool {
	for _, l := range c.Lines {
		if len(l.Points) > 0 {
			return false
		}
	}
	for _, g := range c.Groups {
		if len(g.Bars) > 0 {
			return false
		}
	}
	return true
}

func (c Chart) write(b *strings.Builder) {
	title := html.EscapeString(c.Title)
	b.WriteString("<figure><figcaption>" + title + "</figcaption>\n")
	c.legend(b)
	fmt.Fprintf(b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", width, height, title)
	if len(c.Groups) > 0 {
		c.bars(b)
	} else {
		c.lines(b)
	}
	b.WriteString("</svg>\n<details><summary>Figures</summary>\n")
	c.figures().write(b, c.Title)
	b.WriteString("</details></figure>\n")
}

// figures are the values of a chart as a table: a column for each line or kind of bar.
func (c Chart) figures() *Table {
	t := &Table{Head: []string{strings.TrimSpace(c.X + " (" + c.Y + ")")}}
	column, row := map[string]int{}, map[string]int{}
	put := func(name, series string, v float64) {
		if column[series] == 0 {
			column[series] = len(t.Head)
			t.Head = append(t.Head, series)
		}
		at, ok := row[name]
		if !ok {
			at, row[name] = len(t.Rows), len(t.Rows)
			t.Rows = append(t.Rows, cells(name))
		}
		t.fill(at, column[series]+1)
		t.Rows[at][column[series]].Text = number(v)
	}
	var all []float64
	for _, l := range c.Lines {
		for _, p := range l.Points {
			all = append(all, p[0])
		}
	}
	slices.Sort(all)
	for _, x := range slices.Compact(all) {
		for _, l := range c.Lines {
			for _, p := range l.Points {
				if p[0] == x {
					put(fmt.Sprintf("%.7g", x), l.Name, p[1])
				}
			}
		}
	}
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			put(g.Name, bar.Name, bar.Value)
		}
	}
	for at := range t.Rows {
		t.fill(at, len(t.Head))
	}
	return t
}

// fill gives a row so many cells.
func (t *Table) fill(row, cells int) {
	for len(t.Rows[row]) < cells {
		t.Rows[row] = append(t.Rows[row], Cell{Text: "-"})
	}
}

func (c Chart) legend(b *strings.Builder) {
	b.WriteString(`<div class="legend">`)
	seen := map[string]bool{}
	item := func(name string, color int, mark string) {
		if !seen[name] {
			seen[name] = true
			fmt.Fprintf(b, `<span class="c%d"><svg viewBox="0 0 24 10" aria-hidden="true">%s</svg>%s</span>`,
				color%colors, mark, html.EscapeString(name))
		}
	}
	for _, l := range c.Lines {
		item(l.Name, l.Color, `<path class="line" d="M0 5H24"/>`)
	}
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			item(bar.Name, bar.Color, `<rect class="bar" x="7" width="10" height="10"/>`)
		}
	}
	b.WriteString("</div>\n")
}

// axis maps values to positions.
type axis struct {
	from, to   float64 // values
	start, end float64 // positions
	log        bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.from, a.to
	if a.log {
		v, lo, hi = math.Log10(max(v, a.from)), math.Log10(lo), math.Log10(hi)
	}
	if hi == lo {
		return a.start
	}
	return a.start + (v-lo)/(hi-lo)*(a.end-a.start)
}

func (c Chart) lines(b *strings.Builder) {
	x, y := c.axes()
	c.gridY(b, y)
	c.gridX(b, x)
	for _, l := range c.Lines {
		var path strings.Builder
		for i, p := range l.Points {
			command := "L"
			if i == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x.at(c.position(p[0])), y.at(p[1]))
		}
		fmt.Fprintf(b, `<path class="line c%d" d="%s"/>`+"\n", l.Color%colors, path.String())
		for _, p := range l.Points {
			fmt.Fprintf(b, `<circle class="c%d" cx="%.1f" cy="%.1f" r="2.2"><title>%s: %g, %s</title></circle>`+"\n",
				l.Color%colors, x.at(c.position(p[0])), y.at(p[1]), html.EscapeString(l.Name), p[0], number(p[1]))
		}
	}
}

// position is where an x value lies on the axis: itself, or its nines.
func (c Chart) position(v float64) float64 {
	if !c.Nines {
		return v
	}
	if v >= 100 {
		return lastNine
	}
	return min(lastNine, -math.Log10(1-v/100))
}

func (c Chart) axes() (x, y axis) {
	x = axis{from: math.Inf(1), to: math.Inf(-1), start: left, end: width - right, log: c.LogX}
	y = axis{from: math.Inf(1), to: math.Inf(-1), start: height - foot, end: top, log: c.LogY}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			v := c.position(p[0])
			x.from, x.to = min(x.from, v), max(x.to, v)
			if !c.LogY || p[1] > 0 {
				y.from, y.to = min(y.from, p[1]), max(y.to, p[1])
			}
		}
	}
	if math.IsInf(y.from, 0) {
		y.from, y.to = 1, 10
	}
	if c.LogY {
		y.from = decade(y.from)
		y.to = math.Pow(10, math.Ceil(math.Log10(max(y.to, y.from*1.01))))
	} else {
		y.from, y.to = 0, niceTop(y.to)
	}
	if x.from == x.to {
		x.to = x.from + 1
	}
	return x, y
}

// decade is the power of 10 at or below v.
func decade(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))) }

// niceTop is the end of an axis from 0: a round number at or above v.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// ticks are the labelled values: five equal steps, or 1, 2 and 5 of every decade.
func (a axis) ticks() (list []float64) {
	if !a.log {
		for i := range 5 {
			list = append(list, a.from+(a.to-a.from)*float64(i)/4)
		}
		return list
	}
	steps := []float64{1}
	if a.to/a.from < 1001 {
		steps = []float64{1, 2, 5}
	}
	for from := decade(a.from); from <= a.to; from *= 10 {
		for _, step := range steps {
			if v := from * step; v >= a.from*0.9999 && v <= a.to*1.0001 {
				list = append(list, v)
			}
		}
	}
	return list
}

func (c Chart) gridY(b *strings.Builder, y axis) {
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, width-right, at, at, left-6, at+4, short(v))
	}
	fmt.Fprintf(b, `<text x="12" y="%.0f" transform="rotate(-90 12 %.0f)" text-anchor="middle">%s</text>`+"\n",
		(height-foot)/2, (height-foot)/2, html.EscapeString(c.Y))
}

func (c Chart) gridX(b *strings.Builder, x axis) {
	label := func(at float64, text string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", at, height-foot+16, text)
	}
	if c.Nines {
		for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99} {
			if v := c.position(p); v <= x.to {
				label(x.at(v), fmt.Sprintf("%g", p))
			}
		}
	} else {
		for _, v := range x.ticks() {
			label(x.at(v), short(v))
		}
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-6,
		html.EscapeString(c.X))
}

func (c Chart) bars(b *strings.Builder) {
	lowest, highest := math.Inf(1), c.Goal
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			lowest, highest = min(lowest, bar.Value), max(highest, bar.Value, bar.Limit)
		}
	}
	y := axis{from: 0, to: niceTop(highest * 1.02), start: height - foot, end: top, log: c.LogY}
	if c.LogY {
		y.from = decade(lowest * 0.9) // the lowest bar is seen
	}
	c.gridY(b, y)
	room := (width - left - right) / float64(len(c.Groups))
	for i, g := range c.Groups {
		from := left + room*float64(i)
		wide := room * 0.8 / float64(max(1, len(g.Bars)))
		for k, bar := range g.Bars {
			x := from + room*0.1 + wide*float64(k)
			fmt.Fprintf(b, `<rect class="bar c%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"><title>%s, %s: %s</title></rect>`+"\n",
				bar.Color%colors, x+1, y.at(bar.Value), max(1, wide-2), y.start-y.at(bar.Value),
				html.EscapeString(g.Name), html.EscapeString(bar.Name), number(bar.Value))
			if bar.Limit > 0 {
				fmt.Fprintf(b, `<line class="goal" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>goal: %g</title></line>`+"\n", from+2, from+room-2, y.at(bar.Limit), y.at(bar.Limit), bar.Limit)
			}
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", from+room/2, height-foot+16,
			html.EscapeString(g.Name))
	}
	if c.Goal > 0 {
		fmt.Fprintf(b, `<line class="goal" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`+"\n", left, width-right,
			y.at(c.Goal), y.at(c.Goal))
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-6,
		html.EscapeString(c.X))
}

// short writes an axis value in few characters.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1e6:
		return trim(v/1e6) + " M"
	case v >= 1e4:
		return trim(v/1e3) + " k"
	}
	return trim(v)
}

func trim(v float64) string {
	s := fmt.Sprintf("%.2f", v)
	if v >= 100 {
		s = fmt.Sprintf("%.0f", v)
	}
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
