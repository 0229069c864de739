package strict

import (
	"regexp"
	"strconv"
)

// generation is the set of members that the Messages API takes for one generation of
// models.
type generation struct {
	name         string
	thinking     []string // types that are accepted
	efforts      []string // of output_config
	noSampling   bool     // temperature, top_p and top_k are fixed
	oneSampler   bool     // temperature or top_p, not both
	noPrefill    bool     // the last message must be the user's
	noForcedTool bool     // tool_choice any and tool are refused
	noSchema     bool     // there is no output_config.format
	maxTokens    int64    // 0: not known
}

var (
	familyFirst  = regexp.MustCompile(`claude-(opus|sonnet|haiku|fable|mythos)-(\d)(?:[.-](\d{1,2}))?(?:\D|$)`)
	versionFirst = regexp.MustCompile(`claude-(\d)(?:[.-](\d))?(?:-(opus|sonnet|haiku))?`)

	lowToHigh = []string{"low", "medium", "high"}
	lowToMax  = []string{"low", "medium", "high", "max"}
	allLevels = []string{"low", "medium", "high", "xhigh", "max"}
)

// generationOf reads a model's name. Each line of the table is a documented
// change of the API, with the first version of the family that has it.
func generationOf(name string) generation {
	family, version := familyOf(name)
	if family == "" {
		return generation{name: name, thinking: []string{"enabled", "adaptive", "disabled", "between_tools"},
			efforts: allLevels}
	}
	since := func(opus, sonnet, haiku, fable int) bool {
		return version >= map[string]int{"opus": opus, "sonnet": sonnet, "haiku": haiku, "fable": fable,
			"mythos": fable}[family]
	}
	const never = 1 << 20
	g := generation{
		name:         name,
		noSampling:   since(407, 500, 505, 0),
		oneSampler:   since(401, 405, 405, 0),
		noPrefill:    since(406, 406, 505, 0),
		noForcedTool: since(505, 505, never, 501),
		noSchema:     !since(401, 405, 405, 0),
		maxTokens:    maxTokensOf(family, version),
	}
	switch {
	case since(407, 500, 505, 0):
		g.efforts = allLevels
	case since(406, 406, never, 0):
		g.efforts = lowToMax
	case family == "opus" && version == 405:
		g.efforts = lowToHigh
	}
	switch {
	case !since(400, 307, 405, 0):
	case !since(406, 406, 505, 0):
		g.thinking = []string{"enabled", "disabled"}
	case !since(407, 500, 505, 0):
		g.thinking = []string{"adaptive", "enabled", "disabled"}
	case family == "fable", family == "mythos", family == "opus" && version >= 505:
		g.thinking = []string{"adaptive"}
	case family == "sonnet" && version >= 505:
		g.thinking = []string{"adaptive", "between_tools"}
	default:
		g.thinking = []string{"adaptive", "disabled"}
	}
	return g
}

// familyOf takes a name such as claude-opus-4-5-20251101 or
// claude-3-7-sonnet-latest apart; version is major x 100 + minor.
func familyOf(name string) (family string, version int) {
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	if m := familyFirst.FindStringSubmatch(name); m != nil {
		return m[1], number(m[2])*100 + number(m[3])
	}
	if m := versionFirst.FindStringSubmatch(name); m != nil {
		if m[3] == "" {
			m[3] = "sonnet"
		}
		return m[3], number(m[1])*100 + number(m[2])
	}
	return "", 0
}

func maxTokensOf(family string, version int) int64 {
	switch {
	case version < 305:
		return 4096
	case version < 307:
		return 8192
	case family == "opus" && version < 405:
		return 32000
	case version < 406:
		return 64000
	}
	return 128000
}
