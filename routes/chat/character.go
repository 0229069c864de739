package chat

import (
	"strings"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

// instruct puts the operator's and the character's instructions before the messages, in this
// order. The character's own model and web search are advice to clients: the members of the
// request decide (addendum 18.3).
func (c *inference) instruct(f *brandFlags) *routes.Error {
	operators := f.system && c.call.Config().SystemPrompt != ""
	if f.character == "" {
		if operators {
			c.chat.SystemPrompt = routes.ViewBytes(c.call.Config().SystemPrompt)
		}
		return nil
	}
	if strings.Contains(f.character, `\`) {
		f.character = string(jsontext.AppendUnescaped(nil, []byte(f.character)))
	}
	unknown := &routes.Error{Status: 404, Code: "CHARACTER_NOT_FOUND", Message: "Unknown character " +
		routes.Excerpt([]byte(f.character)) + "; GET " + routes.Prefix + "/characters lists the characters."}
	if c.owner.characters == nil {
		return unknown
	}
	prompt, found := c.owner.characters.Prompt(c.call, f.character, operators)
	if !found {
		return unknown
	}
	c.chat.SystemPrompt = prompt
	return nil
}

// noteCharacter counts the use of a character.
func (c *inference) noteCharacter() {
	if c.flags.character != "" {
		c.owner.characters.Used(c.call, c.flags.character)
	}
}
