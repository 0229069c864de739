package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// diff writes the first differences of two recordings and says how many entries
// differ. skip are parts that are not compared.
func diff(out io.Writer, a, b *recording, most int, skip map[string]bool) int {
	var na, nb []*entry
	var both sync.WaitGroup
	both.Go(func() { na = newNormal(a).all() })
	both.Go(func() { nb = newNormal(b).all() })
	both.Wait()
	count := 0
	for i := range max(len(na), len(nb)) {
		var ea, eb *entry
		if i < len(na) {
			ea = na[i]
		}
		if i < len(nb) {
			eb = nb[i]
		}
		text := differ(ea, eb, skip)
		if text == "" {
			continue
		}
		if count++; count <= most {
			fmt.Fprintln(out, text)
		}
	}
	if count > most {
		fmt.Fprintf(out, "and %d more entries that differ\n", count-most)
	}
	return count
}

// differ says how two entries differ; empty: they do not.
func differ(a, b *entry, skip map[string]bool) string {
	switch {
	case a == nil:
		return "== only in the second: " + b.Name
	case b == nil:
		return "== only in the first: " + a.Name
	case a.Name != b.Name:
		return "== another request stands here\n- " + a.Name + "\n+ " + b.Name
	}
	pa, pb := kept(a, skip), kept(b, skip)
	var text strings.Builder
	for i := range max(len(pa), len(pb)) {
		switch {
		case i >= len(pa):
			fmt.Fprintf(&text, "\n[%s] is only in the second:\n%s", pb[i].Name, shown(pb[i].Data))
		case i >= len(pb):
			fmt.Fprintf(&text, "\n[%s] is only in the first:\n%s", pa[i].Name, shown(pa[i].Data))
		case pa[i].Name != pb[i].Name:
			fmt.Fprintf(&text, "\n[%s] in the first is [%s] in the second:\n- %s\n+ %s", pa[i].Name, pb[i].Name,
				shown(pa[i].Data), shown(pb[i].Data))
		case string(pa[i].Data) != string(pb[i].Data):
			fmt.Fprintf(&text, "\n[%s]%s", pa[i].Name, firstDifference(string(pa[i].Data), string(pb[i].Data)))
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "== " + a.Name + text.String()
}

func kept(e *entry, skip map[string]bool) (parts []part) {
	for _, p := range e.Parts {
		if !skip[strings.Fields(p.Name)[0]] {
			parts = append(parts, p)
		}
	}
	return parts
}

const (
	shownBefore = 60  // bytes of context
	shownBehind = 200 // bytes from the difference on
)

// firstDifference shows the lines that are not the same, from the first on, at
// most three pairs.
func firstDifference(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	var text strings.Builder
	for i, pairs := 0, 0; i < max(len(la), len(lb)) && pairs < 3; i++ {
		x, y := "", ""
		if i < len(la) {
			x = la[i]
		}
		if i < len(lb) {
			y = lb[i]
		}
		if x == y && i < len(la) && i < len(lb) {
			continue
		}
		pairs++
		at := 0
		for at < min(len(x), len(y)) && x[at] == y[at] {
			at++
		}
		fmt.Fprintf(&text, " line %d, byte %d:\n- %s\n+ %s", i+1, at, around(x, at), around(y, at))
	}
	return text.String()
}

func around(s string, at int) string {
	from, to := max(0, at-shownBefore), min(len(s), at+shownBehind)
	text := strconv.Quote(s[from:to])
	text = text[1 : len(text)-1]
	if from > 0 {
		text = "…" + text
	}
	if to < len(s) {
		text += "…"
	}
	return text
}

func shown(b []byte) string { return around(string(b), shownBefore) }
