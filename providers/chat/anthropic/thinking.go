package anthropic

import (
	"bytes"
	"strconv"
)

const (
	// leastBudget is the smallest number of tokens a model can be given to think.
	leastBudget = 1024
	// mostBudget bounds what one request thinks; above it models gain little.
	mostBudget = 64_000
)

// levels are the efforts by how many of them a generation knows. xhigh came
// after max, so a generation of four knows low, medium, high and max.
var levels = [...]string{"low", "medium", "high", "max", "xhigh"}

// budgets is the share of the request's tokens that an effort may think, in
// hundredths.
var budgets = map[string]int64{"minimal": 10, "low": 20, "medium": 50, "high": 80, "xhigh": 90, "max": 95}

// reason writes thinking and decides the effort. The client's cap holds for
// thoughts and answer together, as reasoning models count it everywhere.
func (w *request) reason() {
	effort := string(w.c.Effort())
	switch {
	case effort == "":
		return
	case effort == "none":
		w.quiet()
		return
	case w.forced, w.last == "assistant":
		// Neither a call that must come nor a beginning that stands allows for
		// thoughts before it; the effort still holds where it can be said.
		return
	}
	switch w.model.thinking {
	case thinksAdaptive:
		w.think = true
		w.b = append(w.b, `,"thinking":{"type":"adaptive"`...)
		if w.model.summaries {
			w.b = append(w.b, `,"display":"summarized"`...)
		}
		w.b = append(w.b, '}')
	case thinksBudget:
		most := w.maxTokens()
		if w.bare || most < 2*leastBudget {
			// Calls without the thoughts that led to them cannot be thought on,
			// and a small cap leaves no room for both.
			return
		}
		w.think = true
		w.b = append(w.b, `,"thinking":{"type":"enabled","budget_tokens":`...)
		w.b = strconv.AppendInt(w.b, min(max(most*budgets[effort]/100, leastBudget), mostBudget), 10)
		w.b = append(w.b, '}')
	}
}

func (w *request) quiet() {
	switch w.model.quiet {
	case quietDisabled:
		w.b = append(w.b, `,"thinking":{"type":"disabled"}`...)
	case quietBetween:
		w.b = append(w.b, `,"thinking":{"type":"between_tools"}`...)
	}
}

// effort is the level to send; nil: none.
func (w *request) effort() []byte {
	asked := w.c.Effort()
	if bytes.Equal(asked, []byte("none")) {
		if w.model.quiet == quietLow {
			return []byte(levels[0])
		}
		return nil
	}
	if len(asked) == 0 || w.model.efforts == 0 {
		return nil
	}
	for _, level := range levels[:w.model.efforts] {
		if level == string(asked) {
			return asked
		}
	}
	if string(asked) == "minimal" {
		return []byte(levels[0])
	}
	return []byte("high") // max and xhigh of a generation without them
}

// output is the effort and the answer's schema.
func (w *request) output() {
	effort, schema := w.effort(), w.schema()
	if effort == nil && schema == nil {
		return
	}
	w.b = append(w.b, `,"output_config":{`...)
	if effort != nil {
		w.b = append(append(append(w.b, `"effort":"`...), effort...), '"')
	}
	if schema != nil {
		if effort != nil {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `"format":{"type":"json_schema","schema":`...)
		w.b = append(append(w.b, schema...), '}')
	}
	w.b = append(w.b, '}')
}
