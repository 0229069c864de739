package gemini

import (
	"strconv"
	"strings"
)

// thinkingMode is how a model is asked to think.
type thinkingMode uint8

const (
	thinksNever  thinkingMode = iota
	thinksBudget              // thinkingBudget, a number of tokens
	thinksLevel               // thinkingLevel
)

// Thinking modes as a target's option `thinking` writes them.
var thinkingModes = map[string]thinkingMode{"none": thinksNever, "budget": thinksBudget, "level": thinksLevel}

// generation has the parameters of one model, as the documentation says of its family
// and version. A parameter that a model does not take is a 400 of the whole request there.
type generation struct {
	thinking    thinkingMode
	least, most int64 // tokens that can be thought with a budget
	off         bool  // a budget of 0 turns thinking off
	minimal     bool  // knows the levels MINIMAL
	medium      bool  // …and MEDIUM besides LOW and HIGH

	signs         bool // calls that come back without their signature are refused
	fixedSampling bool // ignores temperature, topP and topK, and will refuse them
	oneCandidate  bool // takes no candidateCount
	noPrefill     bool // the last turn must be the user's
}

// foreign is for models of no known name behind this dialect.
var foreign = generation{thinking: thinksNever, least: 128, most: 24576, medium: true}

// generationOf reads a model's name, and an operator's word on its thinking.
func generationOf(name, thinking string) generation {
	g := foreign
	if family, version, ok := parseName(name); ok {
		g = generationFrom(family, version)
	}
	if mode, ok := thinkingModes[thinking]; ok {
		g.thinking = mode
	}
	return g
}

// family is the size of a model of the Gemini family.
type family uint8

const (
	other family = iota
	pro
	flash
	lite
	picture // draws or speaks
)

// latest is the version of names without one, such as gemini-flash-latest.
const latest = 1 << 20

func generationFrom(f family, version int) generation {
	g := generation{
		least: 128, most: 24576, off: f != pro,
		minimal:       f == lite || f == flash && version < 307,
		medium:        f != pro || version > 300,
		signs:         version >= 300,
		fixedSampling: version >= 306 || f == lite && version >= 305,
		oneCandidate:  version >= 300,
	}
	g.noPrefill = g.fixedSampling
	switch {
	case version >= 300:
		g.thinking = thinksLevel
	case version >= 205 && f != picture:
		g.thinking = thinksBudget
	}
	switch f {
	case pro:
		g.most = 32768
	case lite:
		g.least = 512
	}
	return g
}

// parseName finds family and version (major x 100 + minor) in names such as
// gemini-2.5-flash-lite, models/gemini-3-pro-preview and google/gemini-3.8-flash.
// ok is false for other models.
func parseName(name string) (f family, version int, ok bool) {
	_, rest, ok := strings.Cut(strings.ToLower(name), "gemini-")
	if !ok {
		return other, 0, false
	}
	version = latest
	for i, word := range strings.FieldsFunc(rest, func(r rune) bool { return r == '-' || r == '@' || r == '/' }) {
		switch word {
		case "pro":
			f = max(f, pro)
		case "flash":
			f = max(f, flash)
		case "lite":
			f = lite
		case "image", "tts", "audio", "live":
			return picture, version, true
		default:
			major, minor, _ := strings.Cut(word, ".")
			m, err := strconv.Atoi(major)
			if err != nil || i > 0 || m > 99 {
				continue
			}
			n, _ := strconv.Atoi(minor)
			version = m*100 + min(n, 99)
		}
	}
	return f, version, true
}
