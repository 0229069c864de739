package parse

import (
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
)

// maxSeries and maxPoints are how much of a chart is read.
const maxSeries, maxPoints = 250, 10_000

// chart is the content of a chart: titles, and its series as a table.
type chart struct {
	in     string // the part of a series that points belong to
	point  int
	inText bool
	text   []byte
	points int
	titles []string
	series []series
	labels map[int]string // of points; those of the first series
}

type series struct {
	name   string
	values map[int]string
}

// chartText reads a chart of a slide or a text document.
func (a *archive) chartText(s *sink, name string) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	c := &chart{labels: map[int]string{}}
	err = walk(until{r, s}, c.beginElement, c.end, func(b []byte) {
		if c.inText {
			c.text = append(c.text, b...)
		}
	})
	if err != nil {
		return err
	}
	for _, title := range c.titles {
		s.text(title)
		s.line()
	}
	c.table(s)
	s.paragraph()
	s.pause()
	return nil
}

func (c *chart) beginElement(e *xml.StartElement) {
	switch name := e.Name.Local; name {
	case "ser":
		if c.in = ""; len(c.series) >= maxSeries {
			c.points = maxPoints
			return
		}
		c.series = append(c.series, series{values: map[int]string{}})
	case "tx", "cat", "val", "xVal", "yVal":
		c.in = name
	case "pt":
		c.point, _ = strconv.Atoi(attr(e, "idx"))
	case "v", "t":
		c.inText, c.text = true, c.text[:0]
	}
}

func (c *chart) end(name string) {
	switch name {
	case "tx", "cat", "val", "xVal", "yVal":
		c.in = ""
	case "t":
		c.inText = false
		c.titles = append(c.titles, string(c.text))
	case "v":
		if c.inText = false; len(c.series) == 0 || c.points >= maxPoints {
			return
		}
		c.points++
		text, last := string(c.text), &c.series[len(c.series)-1]
		switch c.in {
		case "tx":
			last.name = text
		case "cat", "xVal":
			if _, is := c.labels[c.point]; !is {
				c.labels[c.point] = text
			}
		case "val", "yVal":
			last.values[c.point] = text
		}
	}
}

// table writes a row for each point, with the values of all series.
func (c *chart) table(s *sink) {
	if c.points == 0 {
		return
	}
	rows := maps.Clone(c.labels)
	head := []string{""}
	for _, one := range c.series {
		head = append(head, one.name)
		for point := range one.values {
			rows[point] = c.labels[point]
		}
	}
	s.paragraph()
	t := markdown{head: len(head)}
	t.add(s, head)
	for _, point := range slices.Sorted(maps.Keys(rows)) {
		cells := []string{rows[point]}
		for _, one := range c.series {
			cells = append(cells, one.values[point])
		}
		t.add(s, cells)
	}
}
