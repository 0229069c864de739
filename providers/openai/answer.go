package openai

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"farebox/providers/dialect"
	"farebox/proxy/scan"
)

// Members of answers and of stream events that we read. A name that stands in
// another case is somebody else's and of no interest, so only the exact
// spelling counts; the scan refuses variants, see unusual.
var (
	functionShape = scan.NewShape(scan.Member{Name: "name"}, scan.Member{Name: "arguments"})
	callShape     = scan.NewShape(scan.Member{Name: "function", Child: functionShape})
	messageShape  = scan.NewShape(
		scan.Member{Name: "content"},
		scan.Member{Name: "reasoning_content"},
		scan.Member{Name: "reasoning"},
		scan.Member{Name: "refusal"},
		scan.Member{Name: "tool_calls", Child: callShape},
	)
	choiceShape = scan.NewShape(
		scan.Member{Name: "message", Child: messageShape},
		scan.Member{Name: "usage", Child: dialect.UsageShape},
	)
	answerShape = scan.NewShape(
		scan.Member{Name: "model"},
		scan.Member{Name: "usage", Child: dialect.UsageShape},
		scan.Member{Name: "choices", Child: choiceShape},
		scan.Member{Name: "error"},
		scan.Member{Name: "x_groq", Child: scan.NewShape(scan.Member{Name: "usage", Child: dialect.UsageShape})},
	)
)

const (
	answerModel = iota
	answerUsage
	answerChoices
	answerError
	answerGroq

	messageContent   = 0
	messageReasoning = 1
	messageThought   = 2
	messageRefusal   = 3
	choiceUsage      = 1
	functionName     = 0
)

var errUpstreamError = errors.New("the upstream reports an error in an answer of status 200")

// Answer reads the usage of a whole answer and gives the answer on, untouched
// but for the model's name and, when asked for, <think> blocks.
func (Dialect) Answer(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage, error) {
	var u dialect.Usage
	if err := s.Doc.Skim(body, answerShape); err != nil {
		return unusual(body, c, err)
	}
	if f, ok := s.Doc.Top(answerError); ok && f.Kind == scan.Object {
		if _, ok := s.Doc.Top(answerChoices); !ok {
			return nil, u, errUpstreamError
		}
	}
	if !usageOf(body, &s.Doc, &u) {
		u = estimate(body, &s.Doc, c)
	}
	if c.Embedding {
		u.Completion, u.Reasoning = 0, 0
	}
	if !t.Renames && !c.DropThinking {
		return body, u, nil
	}
	return rewrite(body, c, t, s), u, nil
}

// unusual reads an answer that two decoders could read differently. It was
// made by the upstream for the client, so it is passed on; only what is no JSON
// object is refused.
func unusual(body []byte, c *dialect.Chat, err error) ([]byte, dialect.Usage, error) {
	var u dialect.Usage
	var se *scan.Error
	if errors.As(err, &se) && se.Reason != scan.Duplicate && se.Reason != scan.Variant {
		return nil, u, fmt.Errorf("cannot read the answer: %s at byte %d of %d", se.Reason, se.Offset, len(body))
	}
	if !dialect.ReadUsage([]byte(gjson.GetBytes(body, "usage").Raw), &u) {
		var text dialect.Produced
		defer text.Release()
		u = dialect.Usage{Prompt: dialect.CountPrompt(c), Estimated: true}
		for _, path := range []string{"choices.#.message.content", "choices.#.message.reasoning_content"} {
			for _, v := range gjson.GetBytes(body, path).Array() {
				u.Completion += dialect.CountTokens(c.Model.Config.Tokenizer, []byte(v.Str))
			}
		}
	}
	return body, u, nil
}

// usageOf reads the usage, wherever it stands: at the top, in a choice
// (Moonshot) or in x_groq.
func usageOf(body []byte, doc *scan.Document, u *dialect.Usage) bool {
	if i := doc.TopIndex(answerUsage); i >= 0 && dialect.UsageIn(body, doc, i, u) {
		return true
	}
	if choices := doc.TopIndex(answerChoices); choices >= 0 {
		for i := choices + 1; i < doc.Fields[choices].Next; i = doc.Fields[i].Next {
			if at := doc.Member(i, choiceUsage); at >= 0 && dialect.UsageIn(body, doc, at, u) {
				return true
			}
		}
	}
	if groq := doc.TopIndex(answerGroq); groq >= 0 {
		if at := doc.Member(groq, 0); at >= 0 && dialect.UsageIn(body, doc, at, u) {
			return true
		}
	}
	return false
}

// estimate counts what the answer says, for upstreams that report no usage.
func estimate(body []byte, doc *scan.Document, c *dialect.Chat) dialect.Usage {
	u := dialect.Usage{Prompt: dialect.CountPrompt(c), Estimated: true}
	var text []byte
	for i := range doc.Fields {
		f := &doc.Fields[i]
		if f.Kind != scan.String || f.Shape != messageShape && f.Shape != functionShape {
			continue
		}
		text = dialect.AppendUnescaped(text[:0], body[f.From+1:f.To-1])
		n := dialect.CountTokens(c.Model.Config.Tokenizer, text)
		u.Completion += n
		if f.Shape == messageShape && (f.Name == messageReasoning || f.Name == messageThought) {
			u.Reasoning += n
		}
	}
	return u
}

// rewrite copies the answer with the model's id and without <think> blocks.
func rewrite(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) []byte {
	out, at := s.Out[:0], int32(0)
	for i := range s.Doc.Fields {
		f := &s.Doc.Fields[i]
		if f.Kind != scan.String {
			continue
		}
		switch {
		case t.Renames && f.Shape == answerShape && f.Name == answerModel:
			out = append(out, body[at:f.From]...)
			out = append(out, t.QuotedID...)
			at = f.To
		case c.DropThinking && f.Shape == messageShape && f.Name == messageContent:
			var think dialect.Think
			out = append(out, body[at:f.From+1]...)
			out = think.End(think.Filter(out, body[f.From+1:f.To-1]))
			at = f.To - 1
		}
	}
	s.Out = append(out, body[at:]...)
	return s.Out
}
