package dialect

import (
	"bytes"

	"farebox/providers/tee/seal"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

const (
	// Tokens of a chat prompt besides its text (OpenAI cookbook).
	messageTokens = 3
	roleTokens    = 1
	nameTokens    = 1
	replyTokens   = 3

	// maxPromptText is how much of a prompt is tokenised (5 ms); the rest has
	// as many tokens a byte. Without a bound, clients that send long prompts
	// and leave would cost more time than they pay for.
	maxPromptText = 64 << 10
)

// EstimatePrompt bounds the prompt's tokens without tokenising. upper holds
// for every text: a token has at least one byte. Images count as imageTokens
// each, whatever the size of their data. Files, audio and video are read by the
// upstream at a length that is unknown here: inline ones count a token a byte,
// linked ones as the model's whole context, and so do all videos, of which an hour
// of one picture fits into a few bytes. likely is the usual number, for
// token rate limits. Of contents that are sealed only the sealed text in them counts.
func EstimatePrompt(c *Chat, imageTokens int64) (upper, likely int64) {
	text, images, more := measure(c, imageTokens)
	return text + images + more, text/tokenBytes + images
}

// measure tells the bytes of a prompt that may be text, the tokens of attachments
// at imageTokens each, and their tokens beyond that.
func measure(c *Chat, imageTokens int64) (text, attached, more int64) {
	text = int64(len(c.Body)+len(c.SystemPrompt)) - sealing(c)
	eachPart(c, func(kind int16, data []byte) {
		text -= int64(len(data))
		attached += imageTokens
		switch {
		case kind == PartImage:
		case c.Model != nil && (kind == PartVideo || bytes.HasPrefix(data, httpPrefix)):
			more += max(0, c.Model.Chat.ContextTokens-imageTokens)
		default:
			more += max(0, int64(len(data))-imageTokens)
		}
	})
	return text, attached, more
}

// sealing is how many bytes of a body are there since contents are sealed.
func sealing(c *Chat) (n int64) {
	if !c.Sealed {
		return 0
	}
	doc := c.Doc
	messages := doc.TopIndex(ChatMessages)
	for m := messages + 1; messages >= 0 && m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		if text := c.Text(doc.Member(m, MessageContent)); seal.Sealed(text) {
			n += int64(len(text) - seal.Plain(len(text)))
		}
	}
	return n
}

var httpPrefix = []byte("http")

// BoundPrompt is EstimatePrompt's upper bound, made tighter by tokenising the
// messages: a counted text replaces its bytes, times permille/1000 for
// upstreams that use another tokenizer, and so do the names and brackets around
// it. All else, such as tools and text beyond maxPromptText, stays at one
// token a byte, so that no text of a client can lower the bound noticeably
// below its later use; the frame is taken from text alone, never from the
// tokens of pictures. Sealed text stays at one token a byte, too. text is how
// many tokens were counted.
func BoundPrompt(c *Chat, imageTokens, permille int64) (bound, text int64) {
	written, attached, more := measure(c, imageTokens)
	n := count(c)
	frame := int64(0)
	if !c.Embedding {
		frame = bodyFrame + n.messages*messageFrame
	}
	bound = max(0, written-n.raw-n.sealed-frame) + n.sealed + attached + more + (n.tokens*permille+999)/1000 + n.fixed
	if c.Sealed {
		return bound, 0 // the small counted part says nothing of the whole
	}
	return bound, n.tokens
}

const (
	// messageFrame is the size of the JSON around the text of a message, bodyFrame of
	// that around the messages: names, brackets and short settings.
	messageFrame = 48
	bodyFrame    = 160
)

// eachPart calls f for every content part that is not text, with the data or
// URL it carries.
func eachPart(c *Chat, f func(kind int16, data []byte)) {
	if c.Embedding {
		return
	}
	doc := c.Doc
	messages := doc.TopIndex(ChatMessages)
	if messages < 0 {
		return
	}
	for m := messages + 1; m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		content := doc.Member(m, MessageContent)
		if content < 0 || doc.Fields[content].Kind != scan.Array {
			continue
		}
		for p := content + 1; p < doc.Fields[content].Next; p = doc.Fields[p].Next {
			for i := p + 1; i < doc.Fields[p].Next; i = doc.Fields[i].Next {
				if name := doc.Fields[i].Name; name >= PartImage && name <= PartFile {
					// The data is the first member of each carrier's shape.
					f(name, c.Text(doc.Member(i, LinkURL)))
				}
			}
		}
	}
}

// CountPrompt counts the prompt's tokens with the model's tokenizer: 3 a
// message, 1 a role, its text, 1 and its text for a name, and 3 for the reply.
// Long prompts are counted in part, see maxPromptText. Tool descriptions are
// written into the prompt in ways that differ by model and are not counted.
func CountPrompt(c *Chat) int64 {
	n := count(c)
	return n.total()
}

func count(c *Chat) (n counter) {
	n.c = c
	if c.Model != nil {
		n.vocabulary, n.attachment = c.Model.Tokenizer, c.Model.ImageTokens
	}
	if c.Embedding {
		n.value(c.Doc.TopIndex(EmbedInput))
		return n
	}
	n.fixed = replyTokens
	if len(c.SystemPrompt) > 0 {
		n.fixed += messageTokens + roleTokens
		n.text(c.SystemPrompt)
	}
	messages := c.Doc.TopIndex(ChatMessages)
	if messages < 0 {
		return n
	}
	fields := c.Doc.Fields
	for m := messages + 1; m < fields[messages].Next; m = fields[m].Next {
		n.fixed += messageTokens + roleTokens
		n.messages++
		n.value(c.Doc.Member(m, MessageContent))
		if name := c.Text(c.Doc.Member(m, MessageName)); name != nil {
			n.fixed += nameTokens
			n.escaped(name)
		}
	}
	return n
}

// counter adds up a prompt.
type counter struct {
	c           *Chat
	vocabulary  string
	attachment  int64
	fixed       int64
	attached    int64 // for parts that are not text
	messages    int64
	tokens      int64 // of text
	bytes, rest int64 // tokenised, and left
	raw         int64 // bytes of the body that were tokenised, as written there
	sealed      int64 // bytes that we cannot read
}

func (n *counter) total() int64 {
	whole := n.fixed + n.attached + n.tokens + (n.sealed+tokenBytes-1)/tokenBytes
	if n.rest == 0 {
		return whole
	}
	return whole + (n.rest*max(n.tokens, 1)+n.bytes-1)/max(n.bytes, 1)
}

// value adds a message's content or an embedding's input.
func (n *counter) value(i int32) {
	if i < 0 {
		return
	}
	doc := n.c.Doc
	switch f := &doc.Fields[i]; f.Kind {
	case scan.String:
		if text := n.c.Text(i); n.c.Sealed && seal.Sealed(text) {
			n.sealed += int64(seal.Plain(len(text)))
		} else {
			n.escaped(text)
		}
	case scan.Array:
		if n.c.Embedding {
			n.list(f.Raw(n.c.Body))
			return
		}
		for p := i + 1; p < f.Next; p = doc.Fields[p].Next {
			text := n.c.Text(doc.Member(p, PartText))
			if text == nil {
				text = n.c.Text(doc.Member(p, PartRefusal))
			}
			if text != nil {
				n.escaped(text)
				continue
			}
			n.attached += n.attachment
		}
	}
}

// list adds the strings of an embedding's input array.
func (n *counter) list(raw []byte) {
	for one := range jsontext.Elements(raw) {
		switch one[0] {
		case '"':
			n.escaped(one[1 : len(one)-1])
		case '[':
			n.fixed += tokenIDs(one)
		default:
			n.fixed++ // a token id
		}
	}
}

// tokenIDs is how many elements one of an embedding's lists of token ids has.
func tokenIDs(raw []byte) (n int64) {
	for at := 1; ; n++ {
		_, to, ok := jsontext.NextElement(raw, at)
		if !ok {
			return n
		}
		at = to
	}
}

func (n *counter) escaped(text []byte) {
	if bytes.IndexByte(text, '\\') < 0 || n.bytes >= maxPromptText {
		n.text(text)
		return
	}
	buf := textBuffers.Get().(*textBuffer)
	keep := min(len(text), 6*maxPromptText) // \u0041 is 6 bytes for one
	buf.text = jsontext.AppendUnescaped(buf.text[:0], text[:keep])
	before := n.rest
	n.text(buf.text)
	if n.rest == before { // all of it was; else its bytes stay in the bound
		n.raw += int64(keep - len(buf.text))
	} else {
		n.raw -= int64(len(buf.text)) - (n.rest - before)
	}
	n.rest += int64(len(text) - keep)
	if cap(buf.text) <= keepScratch {
		textBuffers.Put(buf)
	}
}

func (n *counter) text(text []byte) {
	take := int(min(int64(len(text)), max(maxPromptText-n.bytes, 0)))
	for take > 0 && take < len(text) && text[take]&0xc0 == 0x80 {
		take--
	}
	n.tokens += CountTokens(n.vocabulary, text[:take])
	n.bytes += int64(take)
	n.raw += int64(take)
	n.rest += int64(len(text) - take)
}
