package operator

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"github.com/tidwall/gjson"
)

// htmlWriter writes a page that is made to be printed.
type htmlWriter struct {
	rows    *bytes.Buffer
	title   string
	asked   []string // the query, as "member: value"
	pages   shape
	numbers []bool // by column: cells are at the right
}

// pageStyle repeats the head of the table on each sheet of paper.
const pageStyle = "body{font:14px/1.4 system-ui,sans-serif;margin:2em}table{border-collapse:collapse;width:100%}" +
	"th,td{padding:.25em .6em;border-bottom:1px solid #ccc;text-align:left;vertical-align:top;overflow-wrap:anywhere}" +
	".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}thead{display:table-header-group}" +
	"tr{break-inside:avoid}@media print{body{margin:0;font-size:10px}}"

func (h *htmlWriter) begin(page gjson.Result, columns []string) {
	title := html.EscapeString(h.title)
	fmt.Fprintf(h.rows, "<!doctype html><html lang=en><meta charset=utf-8><title>%s</title><style>%s</style><h1>%s</h1>\n", title, pageStyle, title)
	facts := h.asked
	page.ForEach(func(name, value gjson.Result) bool {
		if !value.IsObject() && !value.IsArray() && name.Str != h.pages.next {
			facts = append(facts, name.Str+": "+value.String())
		}
		return true
	})
	for _, fact := range facts {
		fmt.Fprintf(h.rows, "<div>%s</div>\n", html.EscapeString(fact))
	}
	h.rows.WriteString("<table><thead><tr>")
	first := page.Get(h.pages.items + ".0")
	h.numbers = make([]bool, len(columns))
	for i, name := range columns {
		h.numbers[i] = plainNumber.MatchString(first.Get(name).String())
		h.cell("th", i, strings.NewReplacer("_", " ", ".", " ").Replace(name))
	}
	h.rows.WriteString("</tr></thead><tbody>\n")
}

func (h *htmlWriter) cell(tag string, i int, text string) {
	class := ""
	if h.numbers[i] {
		class = " class=n"
	}
	fmt.Fprintf(h.rows, "<%s%s>%s</%s>", tag, class, html.EscapeString(text), tag)
}

func (h *htmlWriter) row(cells []string) {
	h.rows.WriteString("<tr>")
	for i, text := range cells {
		h.cell("td", i, text)
	}
	h.rows.WriteString("</tr>\n")
}

func (h *htmlWriter) end() { h.rows.WriteString("</tbody></table></html>\n") }
