package anthropic

import (
	"errors"
	"fmt"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

var (
	blockShape = scan.NewShape(scan.Members(nil,
		"type", "text", "thinking", "signature", "data", "id", "name", "input", "citations")...)
	messageShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"content": blockShape},
		"id", "type", "content", "stop_reason", "usage", "model")...)
)

const (
	messageID = iota
	messageType
	messageContent
	messageStop
	messageUsage
	messageModel
)

const (
	blockType = iota
	blockText
	blockThinking
	blockSignature
	blockData
	blockID
	blockName
	blockInput
	blockCitations
)

var errNoMessage = errors.New("the answer is not a message")

// Answer writes the chat completion for a whole message.
func (Dialect) Answer(body []byte, c *dialect.Chat, _ *dialect.Target, scratch *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	s := streams.Get().(*stream)
	defer s.Release()
	s.OpenWhole(c, s, scratch.Out[:0])
	if err := s.message(body); err != nil {
		return nil, dialect.Usage{}, err
	}
	var u dialect.Usage
	scratch.Out, u = s.Whole()
	return scratch.Out, u, nil
}

// message puts all of a whole message.
func (s *stream) message(body []byte) error {
	if err := s.doc.Skim(body, messageShape); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	kind, list := string(s.text(body, s.doc.TopIndex(messageType))), s.doc.TopIndex(messageContent)
	switch {
	case kind == "error":
		return &dialect.Failed{JSON: body}
	case kind != "message" || list < 0:
		return errNoMessage
	}
	s.atOnce = true
	s.Begin(completionID(s.text(body, s.doc.TopIndex(messageID))))
	for i := list + 1; i < s.doc.Fields[list].Next; i = s.doc.Fields[i].Next {
		s.openBlock(body, i)
		s.citeAll(body, i)
		s.closeBlock()
	}
	if i := s.doc.TopIndex(messageUsage); i >= 0 {
		s.count(s.doc.Fields[i].Raw(body))
	}
	s.Ends(0, finishReason(s.text(body, s.doc.TopIndex(messageStop))))
	return nil
}

// signed puts a thought with its signature.
func (s *stream) signed(body []byte, block int32) {
	signature := s.text(body, s.doc.Member(block, blockSignature))
	e := s.Event(dialect.Signature, 0)
	e.Type, e.Format, e.Index, e.Signed = "reasoning.text", thoughtFormat, s.thoughts, len(signature) > 0
	if e.Raw, e.Text = s.text(body, s.doc.Member(block, blockThinking)), signature; e.Text == nil {
		e.Text = []byte{} // the entry has the member all the same
	}
	s.Put(e)
}

// citeAll puts the citations of a block.
func (s *stream) citeAll(body []byte, block int32) {
	i := s.doc.Member(block, blockCitations)
	if s.block != "text" || i < 0 {
		return
	}
	n := 0
	if s.sources = appendCitations(s.sources[:0], s.doc.Fields[i].Raw(body), s.textFrom, s.chars, &n); n > 0 {
		e := s.Event(dialect.Sources, 0)
		e.Raw = s.sources
		s.Put(e)
	}
}
