package anthropic

import (
	"bytes"
	"strconv"
)

const (
	// leastBudget is the smallest number of tokens a model can be given to think.
	leastBudget = 1024
	// mostBudget bounds the thinking of one request; above it models gain little.
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
func (r *request) reason() {
	effort := string(r.Effort())
	switch {
	case effort == "":
		return
	case effort == "none":
		r.quiet()
		return
	case r.forced, r.last == "assistant":
		// Neither a forced call nor a given beginning of the answer allows for
		// thoughts before it; the effort still holds where it can be sent.
		return
	}
	switch r.model.thinking {
	case thinksAdaptive:
		r.think = true
		r.b = append(r.b, `,"thinking":{"type":"adaptive"`...)
		if r.model.summaries {
			r.b = append(r.b, `,"display":"summarized"`...)
		}
		r.b = append(r.b, '}')
	case thinksBudget:
		most := r.maxTokens()
		if r.bare || most < 2*leastBudget {
			// Calls without the thoughts that led to them cannot be thought on,
			// and a small cap leaves no room for both.
			return
		}
		r.think = true
		r.b = append(r.b, `,"thinking":{"type":"enabled","budget_tokens":`...)
		r.b = strconv.AppendInt(r.b, min(max(most*budgets[effort]/100, leastBudget), mostBudget), 10)
		r.b = append(r.b, '}')
	}
}

func (r *request) quiet() {
	switch r.model.quiet {
	case quietDisabled:
		r.b = append(r.b, `,"thinking":{"type":"disabled"}`...)
	case quietBetween:
		r.b = append(r.b, `,"thinking":{"type":"between_tools"}`...)
	}
}

// effort is the level to send; nil: none.
func (r *request) effort() []byte {
	asked := r.Effort()
	if bytes.Equal(asked, []byte("none")) {
		if r.model.quiet == quietLow {
			return []byte(levels[0])
		}
		return nil
	}
	if len(asked) == 0 || r.model.efforts == 0 {
		return nil
	}
	for _, level := range levels[:r.model.efforts] {
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
func (r *request) output() {
	effort := r.effort()
	_, schema := r.Format()
	if effort == nil && schema == nil {
		return
	}
	r.b = append(r.b, `,"output_config":{`...)
	if effort != nil {
		r.b = append(append(append(r.b, `"effort":"`...), effort...), '"')
	}
	if schema != nil {
		if effort != nil {
			r.b = append(r.b, ',')
		}
		r.b = append(r.b, `"format":{"type":"json_schema","schema":`...)
		r.b = append(append(r.b, schema...), '}')
	}
	r.b = append(r.b, '}')
}
