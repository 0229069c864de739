package anthropic

import (
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy/scan"
)

// think asks for thoughts in the model's own way. Clients choose the way by the model's
// name, which is another one here: for a name that it does not know, Claude Code takes the
// newest way. Models of no known name are asked as the client wrote it.
func (p *patcher) think(t *dialect.Target) {
	if _, _, known := parseName(t.Name); !known && t.Thinking == "" {
		return
	}
	g := generationOf(t.Name, t.Thinking)
	level := p.level(&g)
	i := p.doc.TopIndex(messages.TopThinking)
	if i < 0 || p.doc.Fields[i].Kind != scan.Object {
		return
	}
	switch kind := string(p.text(i, messages.ThinkingType)); {
	case kind == "adaptive" && g.thinking == thinksBudget:
		p.budget(i, level)
	case kind == "enabled" && g.thinking == thinksAdaptive && g.summaries:
		p.c.LeftOut.Add("thinking.budget_tokens")
		p.replace(i, []byte(`{"type":"adaptive","display":"summarized"}`))
	case (kind == "adaptive" || kind == "enabled") && g.thinking == thinksNever,
		kind == "disabled" && g.quiet == quietLow:
		p.leaveOut(i)
	case kind == "disabled" && g.quiet == quietBetween:
		p.c.LeftOut.Add("thinking.type")
		p.replace(i, []byte(`{"type":"between_tools"}`))
	}
}

func (p *patcher) leaveOut(thinking int32) {
	p.c.LeftOut.Add("thinking")
	p.s.Picks = append(p.s.Picks, thinking)
}

// level is the effort that the client asks for. One that the generation does not know is
// cut, or becomes high.
func (p *patcher) level(g *generation) string {
	o := p.doc.TopIndex(messages.TopOutput)
	if o < 0 || p.doc.Fields[o].Kind != scan.Object {
		return ""
	}
	level := string(p.text(o, messages.OutputEffort))
	i := p.doc.Member(o, messages.OutputEffort)
	switch {
	case level == "":
		return level
	case g.efforts == 0 && p.doc.Fields[o].Len == 1:
		p.s.Picks = append(p.s.Picks, o)
	case g.efforts == 0:
		for _, c := range p.doc.AppendCuts(nil, p.c.Told, i) {
			p.cut(c.From, c.To)
		}
	case knows(g, level):
		return level
	default:
		p.replace(i, []byte(`"high"`))
	}
	p.c.LeftOut.Add("output_config.effort")
	return level
}

func knows(g *generation, level string) bool {
	for _, known := range levels[:g.efforts] {
		if known == level {
			return true
		}
	}
	return false
}

// budget gives a model tokens to think in the place of an effort. It gets none where there
// is no room, or where the calls that are being answered have lost their thoughts.
func (p *patcher) budget(thinking int32, level string) {
	most := p.c.MaxCompletion
	if most == 0 {
		most = p.c.AskedCompletion
	}
	if most < 2*leastBudget || p.bare() {
		p.leaveOut(thinking)
		return
	}
	share, known := budgets[level]
	if !known {
		share = budgets["high"]
	}
	b := strconv.AppendInt([]byte(`{"type":"enabled","budget_tokens":`), min(max(most*share/100, leastBudget), mostBudget), 10)
	p.replace(thinking, append(b, '}'))
}

// bare says that the last turn of the assistant has calls, and no thought of the model's
// before them.
func (p *patcher) bare() bool {
	list := p.doc.TopIndex(messages.TopMessages)
	fields := p.doc.Fields
	last := int32(-1)
	for m := list + 1; list >= 0 && m < fields[list].Next; m = fields[m].Next {
		if string(p.text(m, messages.MessageRole)) == "assistant" {
			last = p.doc.Member(m, messages.MessageContent)
		}
	}
	if last < 0 || fields[last].Kind != scan.Array {
		return false
	}
	first, calls := "", false
	for b := last + 1; b < fields[last].Next; b = fields[b].Next {
		kind := string(p.text(b, messages.BlockType))
		if first == "" && !p.isForeign(b) {
			first = kind
		}
		calls = calls || kind == "tool_use"
	}
	return calls && first != "thinking" && first != "redacted_thinking"
}
