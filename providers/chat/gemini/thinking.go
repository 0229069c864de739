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
func (w *request) thinkingConfig() {
	effort := string(w.c.Effort())
	if w.model.thinking == thinksNever || effort == "" &&
		(w.c.NoReasoning || w.c.Model == nil || !w.c.Model.Chat.Capabilities.Reasons()) {
		return
	}
	w.setting("thinkingConfig")
	w.b = append(w.b, '{')
	from := len(w.b)
	if effort != "none" {
		w.b = append(w.b, `"includeThoughts":true`...)
	}
	if effort != "" {
		if len(w.b) > from {
			w.b = append(w.b, ',')
		}
		if w.model.thinking == thinksLevel {
			w.b = append(append(append(w.b, `"thinkingLevel":"`...), w.level(effort)...), '"')
		} else {
			w.b = strconv.AppendInt(append(w.b, `"thinkingBudget":`...), w.budget(effort), 10)
		}
	}
	w.b = append(w.b, '}')
}

// level is the nearest level that the model knows; none has no level of its own.
func (w *request) level(effort string) string {
	switch effort {
	case "none", "minimal":
		if w.model.minimal {
			return "MINIMAL"
		}
		return "LOW"
	case "low":
		return "LOW"
	case "medium":
		if w.model.medium {
			return "MEDIUM"
		}
	}
	return "HIGH"
}

// budget leaves a fifth of the request's tokens for the answer: thoughts count
// into them.
func (w *request) budget(effort string) int64 {
	if effort == "none" {
		if w.model.off {
			return 0
		}
		return w.model.least
	}
	n, known := budgets[effort]
	if !known {
		n = w.model.most
	}
	if most := w.maxTokens(); most > 0 {
		n = min(n, most*4/5)
	}
	return min(max(n, w.model.least), w.model.most)
}
