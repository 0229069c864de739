package anthropic

import (
	"strconv"
	"strings"
)

// thinkingMode is how a model is asked to think.
type thinkingMode uint8

const (
	thinksNever    thinkingMode = iota
	thinksBudget                // thinking: enabled, with a number of tokens
	thinksAdaptive              // thinking: adaptive, with output_config.effort
)

// Thinking modes as a target's option `thinking` writes them.
var thinkingModes = map[string]thinkingMode{"none": thinksNever, "budget": thinksBudget, "adaptive": thinksAdaptive}

// quiet is how a model is asked not to think.
type quiet uint8

const (
	quietUnasked  quiet = iota // it does not think unless asked to
	quietDisabled              // thinking: disabled
	quietBetween               // thinking: between_tools is the least it can
	quietLow                   // it always thinks: the lowest effort
)

// generation has the parameters of one model, as the dialect's documentation says of
// its family and version. Parameters that a model does not take are a 400 of
// the whole request there, so a guess is not an option.
type generation struct {
	thinking  thinkingMode
	quiet     quiet
	efforts   int  // how many of the levels low, medium, high, max and xhigh it knows; max comes before xhigh
	summaries bool // thoughts come only when summaries are asked for

	fixedSampling bool // takes no temperature, top_p, top_k
	oneSampler    bool // takes temperature or top_p
	noPrefill     bool // the last message must be the user's
	noForcedTool  bool // takes no tool_choice of any or tool
	noSchema      bool // takes no schema for its answer
}

// modern is the generation of names without a version, such as claude-opus-latest:
// today's way of thinking, and nothing refused beforehand.
var modern = generation{thinking: thinksAdaptive, quiet: quietDisabled, efforts: 5}

// foreign is for models of other makers behind this dialect, whose servers
// took over its first forms.
var foreign = generation{thinking: thinksBudget}

// generationOf reads a model's name, and an operator's word on its thinking.
func generationOf(name, thinking string) generation {
	g := foreign
	if family, version, ok := parseName(name); ok {
		g = generationFrom(family, version)
	}
	if mode, ok := thinkingModes[thinking]; ok && mode != g.thinking {
		g.thinking = mode
		switch {
		case mode == thinksNever:
			g.efforts, g.quiet = 0, quietUnasked
		case mode == thinksAdaptive:
			g.efforts = max(g.efforts, 3)
		}
	}
	return g
}

func generationFrom(family string, version int) generation {
	always := family == "fable" || family == "mythos"
	if version == 0 && !always {
		return modern
	}
	// since says that the version is at least the first of its family with a feature.
	since := func(opus, sonnet, haiku int) bool {
		switch family {
		case "opus":
			return version >= opus
		case "sonnet":
			return version >= sonnet
		case "haiku":
			return version >= haiku
		}
		return always
	}
	const never = 1 << 20
	g := generation{
		summaries:     since(407, 500, 505),
		fixedSampling: since(407, 500, 505),
		oneSampler:    since(401, 405, 405),
		noPrefill:     since(406, 406, 505),
		noForcedTool:  since(505, 505, never) && version != 500,
		noSchema:      !since(401, 405, 405),
	}
	switch {
	case since(406, 406, 505):
		g.thinking = thinksAdaptive
	case since(400, 307, 405):
		g.thinking = thinksBudget
	}
	switch {
	case since(407, 500, 505):
		g.efforts = 5
	case since(406, 406, never):
		g.efforts = 4
	case family == "opus" && version == 405:
		g.efforts = 3
	}
	switch {
	case always, family == "opus" && version >= 505:
		g.quiet = quietLow
	case family == "sonnet" && version >= 505:
		g.quiet = quietBetween
	case since(500, 500, 505):
		g.quiet = quietDisabled
	}
	return g
}

// parseName finds family and version (major x 100 + minor, 0: none) in names
// such as claude-opus-4-5-20251101, claude-3-7-sonnet-latest and
// us.anthropic.claude-sonnet-4-6-v1:0. ok is false for other makers' models.
func parseName(name string) (family string, version int, ok bool) {
	at := strings.Index(strings.ToLower(name), "claude-")
	if at < 0 {
		return "", 0, strings.EqualFold(name, "claude")
	}
	version = -1
	numbers := 0
	for word := range strings.FieldsFuncSeq(strings.ToLower(name[at+len("claude-"):]),
		func(c rune) bool { return strings.ContainsRune("-.@:_/[]", c) }) {
		n, number := shortNumber(word)
		switch {
		case number && numbers == 0:
			version, numbers = n*100, 1
		case number && numbers == 1:
			version, numbers = version+n, 2
		case !number && (word == "opus" || word == "sonnet" || word == "haiku" || word == "fable" || word == "mythos"):
			family = word
			numbers *= 2 // after claude-3-opus no minor version follows
		default:
			numbers = 2 // a date, a revision
		}
	}
	if family == "" && version > 0 {
		family = "sonnet" // claude-2.1
	}
	return family, max(version, 0), true
}

// shortNumber is a version's part; dates are longer.
func shortNumber(word string) (int, bool) {
	if len(word) > 2 {
		return 0, false
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}
