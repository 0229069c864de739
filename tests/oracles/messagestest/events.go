package messagestest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
)

// CheckMessage judges a whole message.
func CheckMessage(body []byte) (*anthropic.Message, error) {
	var m anthropic.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	if wrong := Members(m); len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return &m, nil
}

// Check reads a whole stream of events and returns the message that they add up to; failed says
// that its end is an error. err lists faults that would break a client of Anthropic's packages.
func Check(stream string) (m *anthropic.Message, failed bool, err error) {
	return check(stream, Members)
}

// Order is Check but for the members of events.
func Order(stream string) (m *anthropic.Message, failed bool, err error) {
	return check(stream, func(any) []string { return nil })
}

func check(stream string, members func(any) []string) (*anthropic.Message, bool, error) {
	c := checker{block: -1, members: members}
	for rest := stream; rest != ""; {
		event, after, whole := strings.Cut(rest, "\n\n")
		if !whole {
			return nil, false, fmt.Errorf("the stream ends inside an event: %q", rest)
		}
		rest = after
		if strings.HasPrefix(event, ":") {
			continue
		}
		if err := c.event(event); err != nil {
			return nil, false, fmt.Errorf("%w\nin %s", err, event)
		}
	}
	if !c.failed && !c.ended {
		return nil, false, fmt.Errorf("the stream has no end")
	}
	return &c.message, c.failed, nil
}

// checker adds events up as clients do.
type checker struct {
	message                       anthropic.Message
	members                       func(any) []string
	block                         int64  // the last one, -1 before the first
	kind                          string // of the open block, empty: none is open
	input                         string // of the open call
	begun, stopped, ended, failed bool
}

func (c *checker) event(event string) error {
	name, data, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
	if !ok || strings.Contains(data, "\n") || !strings.HasPrefix(event, "event: ") {
		return fmt.Errorf("the event has other lines than its name and data")
	}
	switch {
	case c.failed || c.ended:
		return fmt.Errorf("an event follows the end")
	case name == "ping":
		return nil
	case name == "error":
		c.failed = true
		return errorEvent(data)
	}
	var e anthropic.MessageStreamEventUnion
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return err
	}
	if e.Type != name {
		return fmt.Errorf("the event's name is not its type")
	}
	as := e.AsAny()
	if wrong := c.members(as); len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	if err := c.order(as); err != nil {
		return err
	}
	return c.message.Accumulate(e)
}

func errorEvent(data string) error {
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return err
	}
	switch e.Error.Type {
	case "invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error",
		"rate_limit_error", "timeout_error", "api_error", "overloaded_error":
	default:
		return fmt.Errorf("%q is not a type of error", e.Error.Type)
	}
	if e.Type != "error" || e.Error.Message == "" {
		return fmt.Errorf("the error has no message")
	}
	return nil
}

// deltas are the kinds that may be added to a block of a kind.
var deltas = map[string]string{
	"text": "text_delta citations_delta", "thinking": "thinking_delta signature_delta", "tool_use": "input_json_delta",
	"server_tool_use": "input_json_delta",
}

// order holds an event against those before it.
func (c *checker) order(event any) error {
	if _, start := event.(anthropic.MessageStartEvent); start == c.begun {
		return fmt.Errorf("message_start is not the first event alone")
	}
	c.begun = true
	switch e := event.(type) {
	case anthropic.MessageStartEvent:
		if len(e.Message.Content) > 0 || e.Message.StopReason != "" || e.Message.ID == "" || e.Message.Model == "" {
			return fmt.Errorf("the message does not begin empty")
		}
	case anthropic.ContentBlockStartEvent:
		if c.kind != "" || c.stopped || e.Index != c.block+1 {
			return fmt.Errorf("block %d begins out of turn", e.Index)
		}
		c.block, c.kind, c.input = e.Index, e.ContentBlock.Type, ""
	case anthropic.ContentBlockDeltaEvent:
		if e.Index != c.block || !strings.Contains(" "+deltas[c.kind]+" ", " "+e.Delta.Type+" ") {
			return fmt.Errorf("a %s is added to block %d, a %s", e.Delta.Type, e.Index, c.kind)
		}
		c.input += e.Delta.PartialJSON
	case anthropic.ContentBlockStopEvent:
		if c.kind == "" || e.Index != c.block {
			return fmt.Errorf("block %d ends, which is not open", e.Index)
		}
		if c.kind == "tool_use" && c.input != "" && !json.Valid([]byte(c.input)) {
			return fmt.Errorf("the input of a call is %q", c.input)
		}
		c.kind = ""
	case anthropic.MessageDeltaEvent:
		if c.kind != "" || c.stopped || e.Delta.StopReason == "" || e.Usage.OutputTokens < 0 {
			return fmt.Errorf("message_delta comes out of turn, or says nothing")
		}
		c.stopped = true
	case anthropic.MessageStopEvent:
		if !c.stopped {
			return fmt.Errorf("message_stop comes without message_delta")
		}
		c.ended = true
	default:
		return fmt.Errorf("an unknown event")
	}
	return nil
}
