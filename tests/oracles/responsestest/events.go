package responsestest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/responses"
)

// Check reads a whole stream of events and returns the response that the last one
// carries; the error names faults that would break a client of OpenAI's packages.
func Check(stream string) (*responses.Response, error) {
	c := checker{}
	rest := stream
	for rest != "" {
		event, after, whole := strings.Cut(rest, "\n\n")
		if !whole {
			return nil, fmt.Errorf("the stream ends inside an event: %q", rest)
		}
		rest = after
		if strings.HasPrefix(event, ":") {
			continue
		}
		if err := c.event(event); err != nil {
			return nil, fmt.Errorf("%w\nin %s", err, event)
		}
	}
	switch {
	case c.last == nil:
		return nil, fmt.Errorf("the stream ends without an end: %q", stream)
	case c.last.Status == "completed" && c.failed:
		return nil, fmt.Errorf("an error follows a completed response")
	}
	return c.last, nil
}

// CheckResponse judges a whole response.
func CheckResponse(body []byte) (*responses.Response, error) {
	var r responses.Response
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	if wrong := Members(r); len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return &r, nil
}

// checker adds events up as clients do.
type checker struct {
	number int64
	id     string
	items  []*added
	last   *responses.Response
	failed bool
}

// added is an item as the events so far make it.
type added struct {
	id, kind, callID string
	parts            []*addedPart
	input            strings.Builder
	done             string // the item's JSON when it was whole
}

type addedPart struct {
	kind        string
	text        strings.Builder
	annotations int
	done        bool
}

func (c *checker) event(event string) error {
	name, data, ok := strings.Cut(event, "\n")
	if !ok || !strings.HasPrefix(name, "event: ") || !strings.HasPrefix(data, "data: ") || strings.Contains(data, "\n") {
		return fmt.Errorf("an event is not an event line and a data line")
	}
	var e responses.ResponseStreamEventUnion
	if err := json.Unmarshal([]byte(data[len("data: "):]), &e); err != nil {
		return err
	}
	if wrong := Members(e); len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	if e.Type != name[len("event: "):] {
		return fmt.Errorf("an event of type %s is named otherwise", e.Type)
	}
	if e.SequenceNumber != c.number {
		return fmt.Errorf("an event has number %d, expected %d", e.SequenceNumber, c.number)
	}
	c.number++
	if c.failed || c.last != nil && e.Type != "error" {
		return fmt.Errorf("something follows the end")
	}
	if c.number == 1 && e.Type != "response.created" {
		return fmt.Errorf("the first event does not create the response")
	}
	return c.add(&e)
}

func (c *checker) add(e *responses.ResponseStreamEventUnion) error {
	switch e.Type {
	case "response.created", "response.in_progress":
		if e.Response.Status != "in_progress" || len(e.Response.Output) > 0 || c.id != "" && e.Response.ID != c.id {
			return fmt.Errorf("a response begins with status %s and %d items", e.Response.Status, len(e.Response.Output))
		}
		c.id = e.Response.ID
		return nil
	case "response.completed", "response.failed", "response.incomplete":
		return c.end(e)
	case "error":
		c.failed = true
		return nil
	case "response.output_item.added":
		if int(e.OutputIndex) != len(c.items) {
			return fmt.Errorf("item %d comes as number %d", len(c.items), e.OutputIndex)
		}
		for _, it := range c.items {
			if it.id == e.Item.ID || it.callID != "" && it.callID == e.Item.CallID {
				return fmt.Errorf("two items have the id %s or the call_id %q", e.Item.ID, it.callID)
			}
		}
		if e.Item.ID == "" || strings.HasSuffix(e.Item.Type, "_call") && e.Item.Type != "web_search_call" &&
			e.Item.CallID == "" {
			return fmt.Errorf("an item has no id")
		}
		c.items = append(c.items, &added{id: e.Item.ID, kind: e.Item.Type, callID: e.Item.CallID})
		return nil
	}
	if int(e.OutputIndex) >= len(c.items) {
		return fmt.Errorf("there is no item %d", e.OutputIndex)
	}
	it := c.items[e.OutputIndex]
	if it.done != "" {
		return fmt.Errorf("something is said of an item that was done")
	}
	if e.Type == "response.output_item.done" {
		return it.end(e)
	}
	if e.ItemID != it.id {
		return fmt.Errorf("item_id is %s, expected %s", e.ItemID, it.id)
	}
	return it.add(e)
}

// kinds are the items that events belong to, by the beginning of their names.
var kinds = []struct{ event, item string }{
	{"response.content_part.", "message"}, {"response.output_text.", "message"}, {"response.refusal.", "message"},
	{"response.reasoning_", "reasoning"}, {"response.function_call_arguments.", "function_call"},
	{"response.custom_tool_call_input.", "custom_tool_call"}, {"response.web_search_call.", "web_search_call"},
}

func (a *added) add(e *responses.ResponseStreamEventUnion) error {
	known := false
	for _, k := range kinds {
		if strings.HasPrefix(e.Type, k.event) {
			if known = true; a.kind != k.item {
				return fmt.Errorf("an event of a %s for a %s", k.item, a.kind)
			}
		}
	}
	index := int(e.ContentIndex)
	if a.kind == "reasoning" {
		index = int(e.SummaryIndex)
	}
	var part *addedPart
	switch {
	case !known:
		return fmt.Errorf("an event that is not expected")
	case strings.HasSuffix(e.Type, "part.added"):
		if index != len(a.parts) || len(a.parts) > 0 && !a.parts[index-1].done {
			return fmt.Errorf("part %d begins as number %d", len(a.parts), index)
		}
		a.parts = append(a.parts, &addedPart{kind: e.Part.Type})
		return nil
	case a.kind == "message" || a.kind == "reasoning":
		if index != len(a.parts)-1 || a.parts[index].done {
			return fmt.Errorf("there is no open part %d", index)
		}
		part = a.parts[index]
	}
	said := ""
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta":
		part.text.WriteString(e.Delta)
		return nil
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		a.input.WriteString(e.Delta)
		return nil
	case "response.output_text.annotation.added":
		if int(e.AnnotationIndex) != part.annotations {
			return fmt.Errorf("annotation %d comes as number %d", part.annotations, e.AnnotationIndex)
		}
		part.annotations++
		return nil
	case "response.output_text.done", "response.reasoning_summary_text.done":
		said = e.Text
	case "response.refusal.done":
		said = e.Refusal
	case "response.function_call_arguments.done":
		return equal("the arguments", e.Arguments, a.input.String())
	case "response.custom_tool_call_input.done":
		return equal("the input", e.Input, a.input.String())
	case "response.content_part.done", "response.reasoning_summary_part.done":
		part.done = true
		if said = e.Part.Text; part.kind == "refusal" {
			said = e.Part.Refusal
		}
		if e.Part.Type != part.kind || len(e.Part.Annotations) != part.annotations {
			return fmt.Errorf("a part of type %s with %d annotations is done as one of type %s with %d", part.kind,
				part.annotations, e.Part.Type, len(e.Part.Annotations))
		}
	default:
		return nil // of a search
	}
	return equal("a part", said, part.text.String())
}

func (a *added) end(e *responses.ResponseStreamEventUnion) error {
	a.done = e.Item.RawJSON()
	item := &e.Item
	if item.ID != a.id || item.Type != a.kind || item.CallID != a.callID {
		return fmt.Errorf("a %s with the id %s is done as another", a.kind, a.id)
	}
	switch a.kind {
	case "message":
		if len(item.Content) != len(a.parts) {
			return fmt.Errorf("a message of %d parts is done with %d", len(a.parts), len(item.Content))
		}
		for i, part := range item.Content {
			said := part.Text
			if part.Type == "refusal" {
				said = part.Refusal
			}
			if err := equal("a part of the item", said, a.parts[i].text.String()); err != nil || !a.parts[i].done {
				return fmt.Errorf("part %d: done %t, %w", i, a.parts[i].done, err)
			}
		}
	case "reasoning":
		said, parts := "", 0
		for _, part := range item.Summary {
			said += part.Text
		}
		for _, part := range a.parts {
			if parts++; !part.done {
				return fmt.Errorf("a summary is not done")
			}
			if err := equal("the summary", said, part.text.String()); err != nil {
				return err
			}
		}
		if said != "" && parts == 0 {
			return fmt.Errorf("a summary was not sent")
		}
	case "function_call":
		return equal("the item's arguments", item.Arguments.OfString, a.input.String())
	case "custom_tool_call":
		return equal("the item's input", item.Input, a.input.String())
	}
	return nil
}

func (c *checker) end(e *responses.ResponseStreamEventUnion) error {
	r := e.Response
	c.last = &r
	if "response."+string(r.Status) != e.Type || r.ID != c.id || len(r.Output) != len(c.items) {
		return fmt.Errorf("%s ends with status %s and %d items of %d", e.Type, r.Status, len(r.Output), len(c.items))
	}
	if (r.Status == "incomplete") != (r.IncompleteDetails.Reason != "") || (r.Status == "failed") != (r.Error.Code != "") {
		return fmt.Errorf("status %s with reason %q and error %q", r.Status, r.IncompleteDetails.Reason, r.Error.Code)
	}
	for i := range r.Output {
		switch it := c.items[i]; {
		case r.Output[i].ID != it.id:
			return fmt.Errorf("item %d has the id %s, expected %s", i, r.Output[i].ID, it.id)
		case it.done == "" && r.Status != "failed":
			return fmt.Errorf("item %d was never done", i)
		case it.done != "":
			if err := equal("an item", r.Output[i].RawJSON(), it.done); err != nil {
				return err
			}
		}
	}
	return nil
}

func equal(what, got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %q, expected %q", what, got, want)
}
