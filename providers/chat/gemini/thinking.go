package gemini

import (
	"strconv"
)

// budgets are the tokens that an effort may think; beyond high it is as much as
// the model can.
var budgets = map[string]int64{"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}

// thinkingConfig decides how the model thinks. Thoughts are asked for where the
// client chose an effort or the catalog says that the model reasons: until they
// come, nothing comes.
func (r *request) thinkingConfig() {
	effort := string(r.Effort())
	if r.model.thinking == thinksNever || effort == "" &&
		(r.NoReasoning || r.Model == nil || !r.Model.Chat.Capabilities.Reasons()) {
		return
	}
	r.setting("thinkingConfig")
	r.b = append(r.b, '{')
	from := len(r.b)
	if effort != "none" {
		r.b = append(r.b, `"includeThoughts":true`...)
	}
	if effort != "" {
		if len(r.b) > from {
			r.b = append(r.b, ',')
		}
		if r.model.thinking == thinksLevel {
			r.b = append(append(append(r.b, `"thinkingLevel":"`...), r.level(effort)...), '"')
		} else {
			r.b = strconv.AppendInt(append(r.b, `"thinkingBudget":`...), r.budget(effort), 10)
		}
	}
	r.b = append(r.b, '}')
}

// level is the nearest level that the model knows; none has no level of its own.
func (r *request) level(effort string) string {
	switch effort {
	case "none", "minimal":
		if r.model.minimal {
			return "MINIMAL"
		}
		return "LOW"
	case "low":
		return "LOW"
	case "medium":
		if r.model.medium {
			return "MEDIUM"
		}
	}
	return "HIGH"
}

// budget leaves a fifth of the request's tokens for the answer: thoughts count
// into them.
func (r *request) budget(effort string) int64 {
	if effort == "none" {
		if r.model.off {
			return 0
		}
		return r.model.least
	}
	n, known := budgets[effort]
	if !known {
		n = r.model.most
	}
	if most := r.CompletionCap(); most > 0 {
		n = min(n, most*4/5)
	}
	return min(max(n, r.model.least), r.model.most)
}
