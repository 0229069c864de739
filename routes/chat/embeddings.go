package chat

import (
	"strconv"
	"unicode/utf8"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// embedTop are the rules of an embeddings body (addendum 11). The body is
// strict: members that are not here are refused.
var embedTop = map[string]*routes.Rule{
	"model":           {Kinds: routes.String, Required: true, NonEmpty: true, Length: 256},
	"input":           inputRule,
	"encoding_format": {Kinds: routes.String, Enum: []string{"float", "base64"}},
	"dimensions":      {Kinds: routes.Number, Integer: true, Min: 1, Max: inf},
	"user":            {Kinds: routes.String},
}

// inputRule is for one text or up to 2,048 (addendum 11). Token numbers, which
// compat.token_input takes too, are for tokenInput.
var inputRule = &routes.Rule{
	Kinds: routes.String | routes.Array, Required: true, NonEmpty: true, Items: 2048,
	Elements: &routes.Rule{Kinds: routes.String, Required: true, NonEmpty: true},
}

// embedBook describes an embeddings body; it is the same for every brand.
var embedBook = routes.NewRulebook(dialect.EmbedShape(), embedTop)

// serveEmbeddings answers POST /embeddings (addendum 11): the same path as
// chat, with a price for the prompt only.
func (ca *Capability) serveEmbeddings(call *routes.Call) *routes.Error {
	c := ca.begin(call)
	v, e := c.readBody()
	if e != nil {
		return e
	}
	tokens, one := false, false
	if c.call.Config().Compat.TokenInput {
		tokens, one = tokenInput(&v)
	}
	if !tokens {
		v.CheckElements(dialect.EmbedInput)
	}
	if !one {
		v.CheckItems(dialect.EmbedInput, "elements")
	}
	c.chat.Embedding = true
	c.call.NoteUser(v.Text(-1, dialect.TopUser))
	if e := c.chooseModel("embedding", &v); e != nil {
		return e
	}
	if c.view.asksToSeal(&c.call.Ctx.Request.Header) {
		return routes.Unsupported("headers", "Model "+c.call.Model.ID+" does not support end-to-end encryption.")
	}
	if e := c.fitsInputs(&v, tokens); e != nil {
		return e
	}
	if v.Member(-1, dialect.EmbedDimensions) != nil && !c.call.Model.Config.Spec.(*config.Embedding).CustomDimensions {
		return routes.Unsupported("dimensions", "Model "+c.call.Model.ID+" does not support custom dimensions.")
	}
	return c.infer()
}

// fitsInputs refuses a text that is longer than the model takes, by the estimate of addendum
// 11: ceil(characters / 3.2 x 0.95) tokens.
func (c *inference) fitsInputs(v *routes.Validator, tokens bool) *routes.Error {
	most := c.call.Model.Room
	f := v.Member(-1, dialect.EmbedInput)
	if most == 0 || tokens || int64(len(v.Body))*19 <= most*64 {
		return nil
	}
	tooLong := func(path string, text []byte) *routes.Error {
		n := (int64(utf8.RuneCount(text))*19 + 63) / 64
		if n <= most {
			return nil
		}
		limit := strconv.FormatInt(most, 10)
		message := path + ": has about " + strconv.FormatInt(n, 10) + " tokens; model " + c.call.Model.ID + " takes at most " +
			limit + "."
		return &routes.Error{Status: 400, Code: "TOO_MANY_TOKENS", Message: message,
			Issues: []routes.Issue{{Code: "too_big", Path: path, Maximum: limit, Message: message}}}
	}
	raw := f.Raw(v.Body)
	if f.Kind == scan.String {
		return tooLong("input", raw[1:len(raw)-1])
	}
	n := 0
	for one := range jsontext.Elements(raw) {
		if e := tooLong("input."+strconv.Itoa(n), one[1:len(one)-1]); e != nil {
			return e
		}
		n++
	}
	return nil
}

// tokenInput checks input that is token numbers: one list of them, or a list of
// such lists (compat.token_input). is: it is; one: it is the
// tokens of one text.
func tokenInput(v *routes.Validator) (is, one bool) {
	i := v.Doc.TopIndex(dialect.EmbedInput)
	if i < 0 || v.Doc.Fields[i].Kind != scan.Array || v.Doc.Fields[i].Len == 0 {
		return false, false
	}
	raw := v.Doc.Fields[i].Raw(v.Body)
	from, _, ok := jsontext.NextElement(raw, 1)
	if !ok || raw[from] == '"' {
		return false, false
	}
	if raw[from] != '[' {
		checkTokens(v, raw, "input")
		return true, true
	}
	n := 0
	for one := range jsontext.Elements(raw) {
		if checkTokens(v, one, "input."+strconv.Itoa(n)); len(v.Issues) > 0 {
			break
		}
		n++
	}
	return true, false
}

// checkTokens checks one list of token numbers.
func checkTokens(v *routes.Validator, raw []byte, path string) {
	if raw[0] != '[' {
		v.Add(routes.Issue{Code: "invalid_type", Path: path, Expected: "array",
			Message: path + ": expected an array of token numbers, like those before it."})
		return
	}
	n := 0
	for one := range jsontext.Elements(raw) {
		if _, err := strconv.ParseUint(routes.ViewString(one), 10, 32); err != nil {
			at := path + "." + strconv.Itoa(n)
			v.Add(routes.Issue{Code: "invalid_type", Path: at, Expected: "integer",
				Message: at + ": expected a token number, an integer from 0."})
			return
		}
		n++
	}
	if n == 0 {
		v.Add(routes.Issue{Code: "too_small", Path: path, Minimum: "1", Message: path + ": must have at least 1 element."})
	}
}
