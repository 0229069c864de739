package strict

import (
	"regexp"
	"strconv"
)

// googleModel is the set of options that generateContent takes for one model, by the public
// documentation of that API.
type googleModel struct {
	name        string
	levels      []string // of thinkingLevel; nil: not supported
	least, most int64    // of thinkingBudget; most 0: not supported
	off         bool     // a budget of 0 is taken
	signs       bool     // calls of the current turn need their thoughtSignature
	noSampling  bool     // temperature, topP and topK are gone
	noPrefill   bool     // the last turn may not be the model's
	one         bool     // one candidate only
}

var googleName = regexp.MustCompile(`^gemini-(\d)(?:\.(\d+))?-(pro|flash-lite|flash|[a-z]+)(-image)?`)

// googleModelOf reads a model's name. Each line is a documented change of the
// API; an unknown name takes the options of all of them.
func googleModelOf(name string) googleModel {
	m := googleName.FindStringSubmatch(name)
	if m == nil {
		return googleModel{name: name, levels: []string{"LOW", "MEDIUM", "HIGH"}, most: 24576, off: true}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	version, kind := major*100+minor, m[3]
	g := googleModel{name: name}
	switch {
	case version < 205 || m[4] != "" && version < 300:
	case version < 300:
		g.least, g.most, g.off = 0, 24576, true
		switch kind {
		case "pro":
			g.least, g.most, g.off = 128, 32768, false
		case "flash-lite":
			g.least = 512
		}
	default:
		g.levels = []string{"LOW", "MEDIUM", "HIGH"}
		switch {
		case kind == "pro" && version == 300:
			g.levels = []string{"LOW", "HIGH"}
		case kind == "flash-lite", kind == "flash" && version < 307:
			g.levels = []string{"MINIMAL", "LOW", "MEDIUM", "HIGH"}
		}
		g.signs, g.one = true, true
		g.noSampling = version >= 306 || kind == "flash-lite" && version >= 305
		g.noPrefill = g.noSampling
	}
	return g
}
