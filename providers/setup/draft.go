package setup

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"farebox/config/prices"
)

// draft is a config that is being written, with comments at the settings that a reader may want
// to change.
type draft struct {
	head      []string // comment lines at the start
	listen    string
	store     string
	margin    *big.Rat // factor on list prices
	source    string   // of the list
	blocks    []string // further top-level text, complete
	upstreams []upstream
	models    []model
}

type upstream struct {
	comment, name, dialect, base string
	key                          string   // as in the file, such as ${OPENAI_API_KEY}; may be empty
	lines                        []string // further keys, each with its value
}

type model struct {
	comment []string
	id      string
	alias   []string
	vendor  *prices.Vendor // nil: a server of one's own
	known   prices.Model
	price   string // replaces that of known: the whole value
	base    bool   // serves requests without a model
	targets []target
}

type target struct {
	upstream, model  string
	weight, priority int
}

// String is the config in YAML.
func (d *draft) String() string {
	var b strings.Builder
	for _, line := range d.head {
		b.WriteString(strings.TrimRight("# "+oneLine(line), " ") + "\n")
	}
	fmt.Fprintf(&b, "\nlisten: %s\nstore: %s # ledger; or postgres://user:password@host:5432/database\n", scalar(d.listen), scalar(d.store))
	b.WriteString("\n# Agents and most client packages send max_tokens, and words beyond the specification.\n" +
		"compat: { accept_max_tokens: true, openai_extras: true }\n")
	for _, block := range d.blocks {
		b.WriteString("\n" + strings.TrimRight(block, "\n") + "\n")
	}
	b.WriteString("\nupstreams:\n")
	for i := range d.upstreams {
		d.upstreams[i].write(&b)
	}
	fmt.Fprintf(&b, "\n# Prices are USD per 1,000,000 tokens.%s\nmodels:\n", oneLine(d.origin()))
	for i := range d.models {
		d.writeModel(&b, &d.models[i])
	}
	return b.String()
}

// oneLine keeps text of files, which is in comments, from beginning a line of its own.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// origin describes the calculation of the prices, if they were calculated.
func (d *draft) origin() string {
	if !slices.ContainsFunc(d.models, func(m model) bool { return m.price == "" && !strings.HasSuffix(m.id, "/*") }) {
		return ""
	}
	return fmt.Sprintf(" They are the list prices of %s times %s.", d.source, strings.TrimRight(strings.TrimRight(d.margin.FloatString(4), "0"), "."))
}

func (u *upstream) write(b *strings.Builder) {
	if u.comment != "" {
		fmt.Fprintf(b, "  # %s\n", u.comment)
	}
	fmt.Fprintf(b, "  - name: %s\n", scalar(u.name))
	if u.dialect != "" && u.dialect != "openai" {
		fmt.Fprintf(b, "    dialect: %s\n", u.dialect)
	}
	if u.base != "" {
		fmt.Fprintf(b, "    base_url: %s\n", scalar(u.base))
	}
	if u.key != "" {
		fmt.Fprintf(b, "    key: %s\n", scalar(u.key))
	}
	for _, line := range u.lines {
		fmt.Fprintf(b, "    %s\n", line)
	}
}

func (d *draft) writeModel(b *strings.Builder, m *model) {
	for _, line := range m.comment {
		fmt.Fprintf(b, "  # %s\n", oneLine(line))
	}
	fmt.Fprintf(b, "  - id: %s\n", scalar(m.id))
	if strings.HasSuffix(m.id, "/*") {
		writeTargets(b, m)
		return
	}
	k := &m.known
	if k.Embedding {
		fmt.Fprintf(b, "    type: embedding\n")
	}
	if m.base {
		fmt.Fprintf(b, "    traits: [default] # serves requests without a model\n")
	}
	if len(m.alias) > 0 {
		fmt.Fprintf(b, "    aliases: %s\n", list(m.alias))
	}
	switch {
	case k.Embedding && k.Context > 0:
		fmt.Fprintf(b, "    max_input_tokens: %d\n", k.Context)
	case !k.Embedding:
		fmt.Fprintf(b, "    context_tokens: %d\n", k.Context)
		if k.Output > 0 {
			fmt.Fprintf(b, "    max_completion_tokens: %d\n", min(k.Output, k.Context))
		}
		if can := abilities(k); can != "" {
			fmt.Fprintf(b, "    capabilities: { %s }\n", can)
		}
	}
	price := m.price
	if price == "" {
		price = d.price(k)
	}
	fmt.Fprintf(b, "    price: %s\n", price)
	writeTargets(b, m)
}

func writeTargets(b *strings.Builder, m *model) {
	b.WriteString("    targets:\n")
	for _, t := range m.targets {
		fmt.Fprintf(b, "      - { upstream: %s", scalar(t.upstream))
		if t.model != "" && t.model != m.id {
			fmt.Fprintf(b, ", model: %s", flow(t.model))
		}
		if t.weight > 1 {
			fmt.Fprintf(b, ", weight: %d", t.weight)
		}
		if t.priority > 0 {
			fmt.Fprintf(b, ", priority: %d", t.priority)
		}
		b.WriteString(" }\n")
	}
}

// abilities are the capabilities of a model in the form of the config.
func abilities(m *prices.Model) string {
	var words []string
	for _, c := range []struct {
		on   bool
		text string
	}{
		{m.Tools, "tools: true"}, {m.Vision, fmt.Sprintf("vision: true, max_images: %d", prices.MostImages)}, {m.Files, "files: true"},
		{m.Audio, "audio: true"}, {m.Video, "video: true, max_videos: 1"}, {m.Schema, "response_schema: true"}, {m.Reasons, "reasoning: true"},
		{m.Reasons && len(m.Efforts) > 0, "reasoning_effort: " + list(m.Efforts)},
	} {
		if c.on {
			words = append(words, c.text)
		}
	}
	return strings.Join(words, ", ")
}

// price is the value of a model's price, with the list price as a comment where there is a margin.
func (d *draft) price(m *prices.Model) string {
	text := "{ " + d.rates(m.Price, m.Embedding)
	if m.Long != nil && !m.Embedding {
		text += fmt.Sprintf(", extended: { above: %d, %s }", m.Long.Above, d.rates(m.Long.Price, false))
	}
	text += " }"
	if d.margin.Cmp(big.NewRat(1, 1)) != 0 {
		one := &draft{margin: big.NewRat(1, 1)}
		text += " # list: " + one.rates(m.Price, m.Embedding)
	}
	return text
}

func (d *draft) rates(p prices.Price, embedding bool) string {
	words := []string{"input: " + prices.PerMillion(p.Input, d.margin)}
	for _, r := range []struct {
		key  string
		cost *big.Rat
	}{{"output", p.Output}, {"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite}} {
		if r.cost != nil && !embedding {
			words = append(words, r.key+": "+prices.PerMillion(r.cost, d.margin))
		}
	}
	return strings.Join(words, ", ")
}

// remarks are the notes about a model of the list that a reader should know.
func remarks(m *prices.Model, now time.Time) []string {
	var lines []string
	if !m.Ends.IsZero() {
		verb := "ends"
		if m.Ends.Before(now) {
			verb = "ended"
		}
		line := "The vendor " + verb + " it on " + m.Ends.Format(time.DateOnly)
		if m.Successor != "" {
			line += " and names " + m.Successor + " in its place"
		}
		lines = append(lines, line+".")
	}
	for _, kind := range m.Dearer {
		lines = append(lines, fmt.Sprintf("It takes %s for a higher price than text; farebox has one price for both, so that it is left out.", kind))
	}
	return lines
}

var (
	plainText  = regexp.MustCompile(`^[A-Za-z/.][A-Za-z0-9._/@+-]*(:[A-Za-z0-9._/@+-]+)*$|^\$\{[A-Za-z0-9_:/.-]+\}$`)
	otherThing = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|null|nan|\.inf|\.nan)$`)
)

// scalar is a text as YAML in a block: plain where that cannot be misread.
func scalar(text string) string {
	if plainText.MatchString(text) && !otherThing.MatchString(text) {
		return text
	}
	return quoted(text)
}

// flow is a text as YAML within { }.
func flow(text string) string {
	if strings.ContainsAny(text, "${}:") {
		return quoted(text)
	}
	return scalar(text)
}

// quoted is a text in double quotes. YAML reads JSON's escapes alike.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

func list(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, flow(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
