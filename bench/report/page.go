package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Page is a report.
type Page struct {
	Title    string
	Subtitle string
	Made     [][2]string // the making of the report: names and values
	Sections []Section
}

// Section is a headline with its content.
type Section struct {
	Title  string
	Text   []string
	Table  *Table
	Charts []Chart
}

// Table has a head and rows; the first column is text, the others numbers.
type Table struct {
	Head []string
	Rows [][]Cell
}

// Cell is one field; Mood is "", "good" or "bad".
type Cell struct{ Text, Mood string }

func cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, t := range texts {
		row[i].Text = t
	}
	return row
}

// The colours of text and lines have a contrast of 4.5 at least on both backgrounds, in light and dark.
const style = `
:root{color-scheme:light dark;--bg:#fff;--card:#f6f8fa;--line:#d9dee4;--fg:#1b1f24;--soft:#5b6570;--good:#1a7f37;--bad:#b42318;
--c0:#5f6a75;--c1:#0b5fcc;--c2:#1a7f37;--c3:#b5481c;--c4:#7a3fd6;--c5:#7d5a00;--c6:#0b7285;--c7:#b4236e;--c8:#5c6b00}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1c2127;--line:#353c45;--fg:#e6e9ed;--soft:#9aa4af;--good:#56d364;--bad:#ff7b72;
--c0:#9aa4af;--c1:#6cb0ff;--c2:#56d364;--c3:#ff9b6b;--c4:#bf9bff;--c5:#e3b341;--c6:#4fd1d9;--c7:#ff8ac2;--c8:#c5d45a}}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--fg);background:var(--bg);max-width:1120px;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.4rem 0 .6rem}
p{margin:.4rem 0;max-width:75ch}.sub,dt{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.8rem 0}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}:focus-visible{outline:2px solid var(--c1);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child{text-align:left}thead th{color:var(--soft);font-weight:600}tbody th{font-weight:400}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,500px),1fr));gap:1rem;align-items:start}
figure{margin:0;background:var(--card);border-radius:8px;padding:.8rem .8rem .4rem}
figcaption{font-weight:600;font-size:.92rem;margin-bottom:.3rem}summary{font-size:.82rem;color:var(--soft)}
figure>svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1}.goal{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:4 3}
.c0{--c:var(--c0)}.c1{--c:var(--c1);--d:7 3}.c2{--c:var(--c2);--d:2 2}.c3{--c:var(--c3)}.c4{--c:var(--c4);--d:7 3 2 3}
.c5{--c:var(--c5);--d:12 3}.c6{--c:var(--c6);--d:4 2}.c7{--c:var(--c7);--d:7 2 2 2 2 2}.c8{--c:var(--c8);--d:1 3}
path.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-dasharray:var(--d,none)}circle,rect.bar{fill:var(--c)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.82rem;color:var(--soft);margin:.2rem 0 .3rem}
.legend svg{width:24px;height:10px;margin-right:.4em}
`

// HTML is the whole document.
func (p Page) HTML() string {
	var b strings.Builder
	title := html.EscapeString(p.Title)
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" " +
		"content=\"width=device-width,initial-scale=1\"/>\n<title>" + title + "</title><style>" + style +
		"</style></head><body><main>\n<h1>" + title + "</h1>\n")
	if p.Subtitle != "" {
		b.WriteString("<p class=\"sub\">" + html.EscapeString(p.Subtitle) + "</p>\n")
	}
	if len(p.Made) > 0 {
		b.WriteString("<dl>\n")
		for _, f := range p.Made {
			b.WriteString("<dt>" + html.EscapeString(f[0]) + "</dt><dd>" + html.EscapeString(f[1]) + "</dd>\n")
		}
		b.WriteString("</dl>\n")
	}
	for _, s := range p.Sections {
		s.write(&b)
	}
	b.WriteString("</main></body></html>\n")
	return b.String()
}

// write leaves out a section whose figures were not measured.
func (s Section) write(b *strings.Builder) {
	charts := slices.DeleteFunc(slices.Clone(s.Charts), Chart.empty)
	filled := s.Table != nil && len(s.Table.Rows) > 0
	if !filled && len(charts) == 0 && (s.Table != nil || s.Charts != nil) {
		return
	}
	b.WriteString("<h2>" + html.EscapeString(s.Title) + "</h2>\n")
	for _, t := range s.Text {
		b.WriteString("<p>" + html.EscapeString(t) + "</p>\n")
	}
	if filled {
		s.Table.write(b, s.Title)
	}
	if len(charts) == 0 {
		return
	}
	b.WriteString("<div class=\"charts\">\n")
	for _, c := range charts {
		c.write(b)
	}
	b.WriteString("</div>\n")
}

// used says which columns hold anything: "-" in every row is left out.
func (t *Table) used() []bool {
	used := make([]bool, len(t.Head))
	for _, row := range t.Rows {
		for i, c := range row {
			used[i] = used[i] || i == 0 || c.Text != "-"
		}
	}
	return used
}

// write puts the table where a keyboard can scroll it.
func (t *Table) write(b *strings.Builder, title string) {
	used := t.used()
	b.WriteString(`<div class="scroll" role="region" tabindex="0" aria-label="` + html.EscapeString(title) +
		"\"><table><thead><tr>")
	for i, h := range t.Head {
		if used[i] {
			b.WriteString("<th scope=\"col\">" + html.EscapeString(h) + "</th>")
		}
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, c := range row {
			if !used[i] {
				continue
			}
			open, end := "<td", "</td>"
			if i == 0 {
				open, end = `<th scope="row"`, "</th>"
			}
			if c.Mood != "" {
				open += ` class="` + c.Mood + `"`
			}
			b.WriteString(open + ">" + html.EscapeString(c.Text) + end)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

// Write makes the file, and its folder when missing.
func Write(path string, p Page) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(p.HTML()), 0o644)
}

func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
