package chat

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
	"farebox/routes"
)

// brandFlags are the effective <brand>_parameters (addendum 5.3), after the
// model suffix has overridden them (5.4).
type brandFlags struct {
	strip, disable, system, e2ee             bool
	e2eeAsked, citationsAsked                bool // the client has written it
	webSearch                                string
	scraping, citations, inStream, documents bool
	xSearch                                  bool
	tool                                     bool // web_search stands among the tools
	character                                string
	word                                     string // of the object that they were in; empty: the model's suffix
}

func (c *inference) readFlags(v *routes.Validator, f *brandFlags) *routes.Error {
	f.system, f.e2ee = true, true
	for n := range 1 + len(c.call.Config().BrandAliases) {
		id := dialect.ChatBrand + n
		at := v.Doc.TopIndex(id)
		if at < 0 {
			continue
		}
		shape := v.Book.Root.Child(id)
		word := c.brandWord(n)
		for i := at + 1; i < v.Doc.Fields[at].Next; i = v.Doc.Fields[i].Next {
			field := &v.Doc.Fields[i]
			if field.Kind == scan.Null {
				continue // as good as absent
			}
			raw := field.Raw(v.Body)
			if field.Kind == scan.String {
				raw = raw[1 : len(raw)-1]
			}
			f.set(shape.Name(int(field.Name)), string(raw), word)
			f.word = word
		}
	}
	for suffix := string(c.chat.Suffix); suffix != ""; {
		var pair string
		pair, suffix, _ = strings.Cut(suffix, "&")
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return routes.Invalid(routes.Issue{Code: "custom", Path: "model",
				Message: "model: the value of " + routes.Excerpt([]byte(key)) +
					" in the suffix is not URL-encoded text."})
		}
		if key == "enable_e2ee" || key == "enable_x_search" {
			continue // not for the suffix (addendum 5.4)
		}
		if key == "enable_web_search" && !slices.Contains(searching, value) {
			return routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: "model",
				Received: routes.Excerpt([]byte(value)), Options: searching,
				Message: "model: enable_web_search in the suffix must be off, on or auto."})
		}
		f.set(key, value, c.brandWord(0))
	}
	c.readTools(v, f)
	return nil
}

// readTools has the tools web_search and x_search switch searching on where the model
// can, web_search unless a parameter says otherwise (addendum 5.5).
func (c *inference) readTools(v *routes.Validator, f *brandFlags) {
	can := &c.call.Model.Chat.Capabilities
	tools := v.Doc.TopIndex(dialect.ChatTools)
	for t := tools + 1; tools >= 0 && t < v.Doc.Fields[tools].Next; t = v.Doc.Fields[t].Next {
		switch kind := v.Text(t, dialect.ToolType); {
		case string(kind) == "web_search" && can.WebSearch:
			f.tool, f.webSearch = true, cmp.Or(f.webSearch, "on")
		case string(kind) == "x_search" && can.XSearch:
			f.xSearch = true
		}
	}
}

func (c *inference) brandWord(n int) string {
	if n == 0 {
		return c.call.Config().Brand
	}
	return c.call.Config().BrandAliases[n-1]
}

func (f *brandFlags) set(key, value, brand string) {
	on := value == "true"
	switch key {
	case "character_slug":
		f.character = value
	case "strip_thinking_response":
		f.strip = on
	case "disable_thinking":
		f.disable = on
	case "enable_e2ee":
		// A client that agreed under one word of the brand is not answered in the clear.
		f.e2ee, f.e2eeAsked = on || f.e2eeAsked && f.e2ee, true
	case "enable_web_search":
		f.webSearch = value
	case "enable_web_scraping":
		f.scraping = on
	case "enable_web_citations":
		f.citations, f.citationsAsked = on, true
	case "include_search_results_in_stream":
		f.inStream = on
	case "return_search_results_as_documents":
		f.documents = on
	case "enable_x_search":
		f.xSearch = on
	case "include_" + brand + "_system_prompt":
		f.system = on
	}
}

// gate refuses features that the model lacks (addendum 5.5). Each refusal counts into the
// unsupported-feature budget.
func (c *inference) gate(v *routes.Validator, use *features, f *brandFlags) *routes.Error {
	can := &c.call.Model.Chat.Capabilities
	refuse := func(path, what string) *routes.Error {
		return routes.Unsupported(path, "Model "+c.call.Model.ID+" does not support "+what+".")
	}
	most := func(n int) int { return max(1, n) }
	switch {
	case use.images > 0 && !can.Vision:
		return refuse("messages", "image input")
	case use.images > 1 && use.images > most(can.MaxImages):
		return refuse("messages", strconv.Itoa(use.images)+" images in one request; at most "+
			strconv.Itoa(most(can.MaxImages)))
	case use.files > 0 && !can.Files && (c.owner.web == nil || !c.owner.web.Offer(c.call).Documents):
		return refuse("messages", "file input")
	case use.files > maxFiles && !can.Files:
		return refuse("messages", strconv.Itoa(use.files)+" files in one request; at most "+strconv.Itoa(maxFiles))
	case use.audios > 0 && !can.Audio:
		return refuse("messages", "audio input")
	case use.videos > 0 && !can.Video:
		return refuse("messages", "video input")
	case use.videos > 1 && use.videos > most(can.MaxVideos):
		return refuse("messages", strconv.Itoa(use.videos)+" videos in one request; at most "+
			strconv.Itoa(most(can.MaxVideos)))
	case v.IsTrue(dialect.ChatLogprobs) && !can.LogProbs:
		return refuse("logprobs", "log probabilities")
	case v.Integer(dialect.ChatTopLogprobs) > 0 && !can.LogProbs:
		return refuse("top_logprobs", "log probabilities")
	case f.webSearch != "" && f.webSearch != "off" && !can.WebSearch:
		return refuse(c.flagPath(f, "enable_web_search"), "web search")
	case f.scraping && !(can.WebSearch && c.owner.web.Offer(c.call).Pages):
		return refuse(c.flagPath(f, "enable_web_scraping"), "web scraping")
	case f.xSearch && !can.XSearch:
		return refuse(c.flagPath(f, "enable_x_search"), "x search")
	}
	if i := v.Doc.TopIndex(dialect.ChatTools); i >= 0 && v.Doc.Fields[i].Len > 0 {
		for t := i + 1; t < v.Doc.Fields[i].Next; t = v.Doc.Fields[t].Next {
			kind := string(v.Text(t, dialect.ToolType))
			switch {
			case kind == "web_search" && can.WebSearch, kind == "x_search" && can.XSearch:
			case !can.Tools:
				return refuse("tools", "tools")
			case kind != "function" && kind != "custom":
				// Custom tools pass the rules with compat.openai_extras only.
				return refuse(v.Doc.Path(t)+".type", "the built-in tool "+routes.Excerpt([]byte(kind)))
			}
		}
	}
	if i := v.Doc.TopIndex(dialect.ChatResponseFormat); i >= 0 && v.Doc.Fields[i].Kind == scan.Object {
		if kind := v.Text(i, dialect.FormatType); string(kind) == "json_schema" && !can.ResponseSchema {
			return refuse("response_format", "json_schema response formats")
		}
	}
	return c.gateEffort(v)
}

// gateEffort checks the effective reasoning effort (reasoning_effort wins over
// reasoning.effort) against the levels of the model's record.
func (c *inference) gateEffort(v *routes.Validator) *routes.Error {
	path := "reasoning_effort"
	effort := v.Text(-1, dialect.ChatReasoningEffort)
	if i := v.Doc.TopIndex(dialect.ChatReasoning); i >= 0 && effort == nil {
		path = "reasoning.effort"
		effort = v.Text(i, dialect.ReasoningEffort)
	}
	options := c.call.Model.Chat.Capabilities.ReasoningEffort
	if !c.call.Model.Chat.Capabilities.Reasons() {
		return c.gateReasoning(v, path, effort)
	}
	if effort == nil || len(options) == 0 || slices.Contains(options, string(effort)) {
		return nil
	}
	if near := nearest(string(effort), options); near != "" && c.adapts().Effort != "" {
		// Its clients ask for an effort whatever the model knows.
		c.chat.ReasoningEffort, c.noEffort = []byte(near), string(effort) == "none"
		c.otherEffort = !c.noEffort
		return nil
	}
	return &routes.Error{
		Status: 400, Code: "INVALID_REQUEST", Unsupported: true,
		Message: "Model " + c.call.Model.ID + " does not support the reasoning effort " + string(effort) + ".",
		Issues: []routes.Issue{{Code: "invalid_enum_value", Path: path, Received: string(effort), Options: options,
			Message: path + ": model " + c.call.Model.ID + " takes one of " + strings.Join(options, ", ") +
				"."}},
	}
}

// nearest is the option below an effort, none excepted, else the one above it; empty: there
// is none.
func nearest(effort string, options []string) string {
	at := slices.Index(efforts, effort)
	if at < 0 {
		return ""
	}
	for n := at - 1; n > 0; n-- {
		if slices.Contains(options, efforts[n]) {
			return efforts[n]
		}
	}
	for _, above := range efforts[at:] {
		if slices.Contains(options, above) {
			return above
		}
	}
	return ""
}

// gateReasoning refuses to make a model reason that does not, but for clients of forms that
// always ask for it. That it shall not is said already, in words that such models do
// not know.
func (c *inference) gateReasoning(v *routes.Validator, path string, effort []byte) *routes.Error {
	if i := v.Doc.TopIndex(dialect.ChatReasoning); i >= 0 && effort == nil {
		path = "reasoning.enabled"
		if at := v.Doc.Member(i, dialect.ReasoningEnabled); at >= 0 && v.Doc.Fields[at].Kind == scan.True {
			effort = []byte("enabled")
		}
	}
	if effort != nil && string(effort) != "none" {
		if c.adapts().Thinking != "" {
			c.chat.NoReasoning, c.unreasoned = true, true
			return nil
		}
		return routes.Unsupported(path, "Model "+c.call.Model.ID+" does not support reasoning.")
	}
	c.chat.NoReasoning = true
	return nil
}
