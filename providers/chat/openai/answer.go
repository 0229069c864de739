package openai

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// Members of answers and of stream events that we read. A name that is in
// another case is not ours, so only the exact spelling counts; the scan refuses
// variants, see unusual.
var (
	hasUsage     = scan.Member{Name: "usage", Child: dialect.UsageShape}
	messageShape = scan.NewShape(scan.Member{Name: "content"})
	choiceShape  = scan.NewShape(scan.Member{Name: "message", Child: messageShape}, hasUsage)
	answerShape  = scan.NewShape(
		scan.Member{Name: "model"}, hasUsage, scan.Member{Name: "choices", Child: choiceShape},
		scan.Member{Name: "error"}, scan.Member{Name: "x_groq", Child: scan.NewShape(hasUsage)},
		scan.Member{Name: "data"}, // of embeddings
	)
)

const (
	answerModel = iota
	answerUsage
	answerChoices
	answerError
	answerGroq
	answerData

	messageContent = 0
	choiceMessage  = 0
	choiceUsage    = 1
)

var errNoAnswer = errors.New("the answer has neither choices nor data")

// Answer reads the usage of a whole answer and gives the answer on, untouched
// but for the model's name, <think> blocks where that is asked for, and the
// usage that is charged where the upstream told none or more than can be true.
func (Dialect) Answer(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	var u dialect.Usage
	if err := s.Doc.Skim(body, answerShape); err != nil {
		return unusual(body, c, err)
	}
	if f, ok := s.Doc.Top(answerError); ok && saysSomething(&f) {
		// An answer that ends in an error does not count, and
		// nothing of it was relayed.
		return nil, u, &dialect.Failed{JSON: body}
	}
	if s.Doc.TopIndex(answerChoices) < 0 && s.Doc.TopIndex(answerData) < 0 {
		return nil, u, errNoAnswer
	}
	reported := usageOf(body, &s.Doc, &u)
	u = settle(u, body, &s.Doc, c)
	reported = reported && u.Claimed == 0 // else the usage that is charged replaces it
	if c.Verbatim || reported && !t.Renames && !c.DropThinking {
		return body, u, nil
	}
	return rewrite(body, c, t, s, reported, &u), u, nil
}

// saysSomething is false for the null, {}, "" and false with which some servers
// say that there was no error.
func saysSomething(f *scan.Field) bool {
	switch f.Kind {
	case scan.Object, scan.Array:
		return f.Len > 0
	case scan.String:
		return f.To-f.From > 2
	}
	return f.Kind == scan.True || f.Kind == scan.Number
}

// settle is the charged usage of a whole answer (dialect.Settle). Its text is
// only looked at when its length says that the usage may not be true.
func settle(u dialect.Usage, body []byte, doc *scan.Document, c *dialect.Chat) dialect.Usage {
	length := int64(0)
	for i := firstChoice(doc); i >= 0; i = nextChoice(doc, i) {
		if at := doc.Member(i, choiceMessage); at >= 0 {
			length += int64(doc.Fields[at].To - doc.Fields[at].From)
		}
	}
	if !c.Embedding && (!u.Seen || dialect.MayContradict(length, u.Completion)) {
		return settleByText(u, body, doc, c)
	}
	return dialect.Settle(u, true, &dialect.Produced{}, c)
}

// settleByText looks at the text, too.
func settleByText(u dialect.Usage, body []byte, doc *scan.Document, c *dialect.Chat) dialect.Usage {
	var text dialect.Produced
	defer text.Release()
	for i := firstChoice(doc); i >= 0; i = nextChoice(doc, i) {
		if at := doc.Member(i, choiceMessage); at >= 0 {
			n := textCollector{to: &text, choice: int64(doc.Fields[i].Elem)}
			n.message(doc.Fields[at].Raw(body))
		}
	}
	return dialect.Settle(u, true, &text, c)
}

func firstChoice(doc *scan.Document) int32 {
	choices := doc.TopIndex(answerChoices)
	if choices < 0 || doc.Fields[choices].Next == choices+1 {
		return -1
	}
	return choices + 1
}

func nextChoice(doc *scan.Document, i int32) int32 {
	if i = doc.Fields[i].Next; i >= doc.Fields[doc.TopIndex(answerChoices)].Next {
		return -1
	}
	return i
}

// unusual reads an answer that two decoders could read differently. It was
// made by the upstream for the client, so it is passed on; only an answer that is not a JSON
// object is refused.
func unusual(body []byte, c *dialect.Chat, err error) ([]byte, dialect.Usage, error) {
	var u dialect.Usage
	var se *scan.Error
	if errors.As(err, &se) && se.Reason != scan.Duplicate && se.Reason != scan.Variant {
		return nil, u, fmt.Errorf("cannot read the answer: %s at byte %d of %d", se.Reason, se.Offset, len(body))
	}
	if e := gjson.GetBytes(body, "error"); e.IsObject() && len(e.Map()) > 0 || e.Type == gjson.String && e.Str != "" {
		return nil, u, &dialect.Failed{JSON: body}
	}
	dialect.ReadUsage([]byte(gjson.GetBytes(body, "usage").Raw), &u)
	var text dialect.Produced
	defer text.Release()
	if !c.Embedding {
		for choice, message := range gjson.GetBytes(body, "choices.#.message").Array() {
			n := textCollector{to: &text, choice: int64(choice)}
			n.message([]byte(message.Raw))
		}
	}
	return body, dialect.Settle(u, true, &text, c), nil
}

// usageOf reads the usage, wherever it is: at the top, in a choice
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

// rewrite copies the answer with the model's id, without <think> blocks, and
// with the usage that is charged where the upstream told none.
func rewrite(body []byte, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch, reported bool, u *dialect.Usage) []byte {
	out, at := s.Out[:0], int32(0)
	usage := int32(-1)
	if !reported {
		usage = s.Doc.TopIndex(answerUsage)
	}
	for i := range s.Doc.Fields {
		f := &s.Doc.Fields[i]
		if f.From < at {
			continue // within the rewritten part
		}
		switch {
		case int32(i) == usage:
			out = dialect.AppendUsage(append(out, body[at:f.From]...), u)
			at = f.To
		case f.Kind != scan.String:
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
	out = append(out, body[at:]...)
	if end := bytes.LastIndexByte(out, '}'); !reported && usage < 0 && end >= 0 {
		out = append(dialect.AppendUsage(append(out[:end], `,"usage":`...), u), '}')
	}
	s.Out = out
	return s.Out
}
