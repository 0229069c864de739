package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// Page is a report.
type Page struct {
	Title    string
	Subtitle string
	Sections []Section
}

// Section is a headline with what belongs under it.
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

const style = `
:root{--fg:#1b1f24;--soft:#5b6570;--line:#d9dee4;--bg:#fff;--card:#f6f8fa;--good:#1a7f37;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--fg:#e6e9ed;--soft:#9aa4af;--line:#353c45;--bg:#14171b;--card:#1c2127;--good:#56d364;--bad:#ff7b72}}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--fg);background:var(--bg);max-width:1120px;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.4rem 0 .6rem}
p{margin:.4rem 0;max-width:75ch}.sub{color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:600}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,500px),1fr));gap:1rem}
figure{margin:0;background:var(--card);border-radius:8px;padding:.8rem .8rem .4rem}
figcaption{font-weight:600;font-size:.92rem;margin-bottom:.3rem}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1}.goal{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:4 3}
.c0{--c:#8a94a0}.c1{--c:#2f81f7}.c2{--c:#2da44e}.c3{--c:#d4663b}.c4{--c:#8957e5}.c5{--c:#bf8700}
path.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}circle{fill:var(--c)}rect.bar{fill:var(--c)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.82rem;color:var(--soft);margin:.2rem 0 .3rem}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;background:var(--c);margin-right:.4em;vertical-align:-.05em}
`

// HTML is the whole document.
func (p Page) HTML() string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" " +
		"content=\"width=device-width,initial-scale=1\">\n<title>")
	b.WriteString(html.EscapeString(p.Title) + "</title><style>" + style + "</style></head><body>\n<h1>" +
		html.EscapeString(p.Title) + "</h1>\n")
	if p.Subtitle != "" {
		b.WriteString("<p class=\"sub\">" + html.EscapeString(p.Subtitle) + "</p>\n")
	}
	for _, s := range p.Sections {
		s.write(&b)
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func (s Section) write(b *strings.Builder) {
	b.WriteString("<h2>" + html.EscapeString(s.Title) + "</h2>\n")
	for _, t := range s.Text {
		b.WriteString("<p>" + html.EscapeString(t) + "</p>\n")
	}
	if s.Table != nil && len(s.Table.Rows) > 0 {
		s.Table.write(b)
	}
	drawn := false
	for _, c := range s.Charts {
		if c.empty() {
			continue
		}
		if !drawn {
			b.WriteString("<div class=\"charts\">\n")
			drawn = true
		}
		c.write(b)
	}
	if drawn {
		b.WriteString("</div>\n")
	}
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

func (t *Table) write(b *strings.Builder) {
	used := t.used()
	b.WriteString("<div class=\"scroll\"><table><thead><tr>")
	for i, h := range t.Head {
		if used[i] {
			b.WriteString("<th>" + html.EscapeString(h) + "</th>")
		}
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, c := range row {
			if !used[i] {
				continue
			}
			class := ""
			if c.Mood != "" {
				class = ` class="` + html.EscapeString(c.Mood) + `"`
			}
			b.WriteString("<td" + class + ">" + html.EscapeString(c.Text) + "</td>")
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
