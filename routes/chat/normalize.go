package chat

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
	"farebox/routes"
)

// normalize writes members with two spellings in the one that upstreams take. Of pictures for a
// model that takes one, those of the last message with any stay (addendum 5.2); of a
// tool_choice {"type": "auto"} the word (addendum D6).
func (c *inference) normalize(v *routes.Validator, use *features) *routes.Error {
	if c.chat.Verbatim || len(v.Issues) > 0 {
		return nil
	}
	patches := c.forgetPictures(v, use)
	doc := c.chat.Doc
	if at := doc.TopIndex(dialect.ChatToolChoice); at >= 0 && doc.Fields[at].Kind == scan.Object {
		switch kind := string(v.Text(at, dialect.ChoiceType)); kind {
		case "none", "auto", "required":
			f := &doc.Fields[at]
			patches = append(patches, proxy.Patch{From: int(f.From), To: int(f.To), With: []byte(`"` + kind + `"`)})
		}
	}
	e := c.rewrite(patches)
	v.Body = c.chat.Body
	return e
}

// forgetPictures takes the pictures out of all of the user's messages but the last one that
// has any.
func (c *inference) forgetPictures(v *routes.Validator, use *features) (patches []proxy.Patch) {
	if can := &c.call.Model.Chat.Capabilities; !can.Vision || can.MaxImages > 1 || use.images-use.results < 2 {
		return nil
	}
	doc := c.chat.Doc
	var earlier, latest []proxy.Patch
	messages := doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		content := doc.Member(m, dialect.MessageContent)
		if content < 0 || string(v.Text(m, dialect.MessageRole)) == "tool" || doc.Fields[content].Kind != scan.Array {
			continue
		}
		var here []proxy.Patch
		for p := content + 1; p < doc.Fields[content].Next; p = doc.Fields[p].Next {
			if string(v.Text(p, dialect.PartType)) == "image_url" {
				f := &doc.Fields[p]
				here = append(here, proxy.Patch{From: int(f.From), To: int(f.To),
					With: []byte(`{"type":"text","text":"` + dialect.NotShown + `"}`)})
			}
		}
		if len(here) > 0 {
			earlier, latest = append(earlier, latest...), here
		}
	}
	use.images -= len(earlier)
	c.forgotten = len(earlier)
	return earlier
}
