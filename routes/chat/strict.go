package chat

import (
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/schema"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// schemaAt is the schema that whole answers must follow (interface.md, structured
// output), where some target of the model does not see to it itself; -1: there is no
// such schema. Streams are passed on as they come.
func (c *inference) schemaAt() int32 {
	if c.view.schemas == nil || c.chat.Stream {
		return -1
	}
	doc := c.chat.Doc
	format := doc.TopIndex(dialect.ChatResponseFormat)
	if format < 0 || string(c.chat.Text(doc.Member(format, dialect.FormatType))) != "json_schema" {
		return -1
	}
	holder := doc.Member(format, dialect.FormatSchema)
	if holder < 0 || !c.chat.True(doc.Member(holder, dialect.SchemaStrict)) {
		return -1
	}
	at := doc.Member(holder, dialect.SchemaSchema)
	if at < 0 || doc.Fields[at].Kind != scan.Object || allEnforce(c.call.Model) {
		return -1
	}
	return at
}

// strict refuses a schema that cannot be checked. That is the work of a child, so that it
// comes after admission.
func (c *inference) strict() *routes.Error {
	at := c.schemaAt()
	if at < 0 {
		return nil
	}
	doc := c.chat.Doc
	raw := doc.Fields[at].Raw(c.chat.Body)
	err := c.view.schemas.Compiles(c.call.Share(context.Background()), raw)
	var bad *schema.Bad
	switch {
	case errors.As(err, &bad):
		path := doc.Path(at)
		return routes.Invalid(routes.Issue{Code: "custom", Path: path, Message: path + ": " + bad.Text})
	case err != nil:
		return c.call.Overworked(&routes.Error{Status: 503, RetryAfter: routes.RetrySoon, Message: "The schema of the " +
			"answer cannot be read right now: too much is being checked. Nothing was charged. Please retry."})
	}
	c.schema = raw
	return nil
}

// allEnforce says that every target of a model sees to schemas itself.
func allEnforce(m *dialect.Model) bool {
	for _, t := range m.Targets {
		if !t.Upstream.Config.EnforcesSchema {
			return false
		}
	}
	return true
}

// checksSchemas says that some upstream of a config leaves schemas to us.
func checksSchemas(cfg *config.Config) bool {
	for i := range cfg.Upstreams {
		if !cfg.Upstreams[i].EnforcesSchema {
			return true
		}
	}
	return false
}

// violated replaces an answer that does not follow its schema by a refusal. It is charged as
// produced and kept like any answer: clients' packages repeat requests with a status of 5xx, and
// would pay again (addendum 19.2 has errors free). An answer cut off at its cap says so in its
// finish_reason. An answer that could not be checked is an error: strict demands a checked
// answer, and that is our part.
func (c *inference) violated() (bool, *routes.Error) {
	if c.schema == nil || c.target.Upstream.Config.EnforcesSchema {
		return false, nil
	}
	texts := c.wholeTexts()
	if len(texts) == 0 {
		return false, nil
	}
	err := c.view.schemas.Conforms(c.call.Share(context.Background()), c.schema, texts)
	var violation *schema.Violation
	switch {
	case err == nil:
		return false, nil
	case !errors.As(err, &violation):
		c.call.Cause = "schema_unchecked"
		return false, &routes.Error{Status: 503, RetryAfter: routes.RetrySoon, Message: "The answer could not be checked " +
			"against its schema: that takes too long, or too much is being checked right now. Nothing was charged. " +
			"Please retry."}
	}
	e := &routes.Error{Status: 422, Code: "OUTPUT_SCHEMA_VIOLATION",
		Message: err.Error() + " The answer was charged: it was produced."}
	c.call.Status, c.call.Cause, c.reply.out = e.Status, "schema_violation", c.call.ErrorBody(e)
	return true, nil
}

// wholeTexts are the texts of the choices that the model has brought to their end.
func (c *inference) wholeTexts() (texts []string) {
	if said := c.chat.Said; said != nil {
		if content := jsontext.Quoted(said.Content); content != nil && string(said.Reason) == "stop" && len(said.Refusal) == 0 {
			texts = append(texts, string(jsontext.AppendUnescaped(nil, content)))
		}
		return texts
	}
	gjson.GetBytes(c.reply.out, "choices").ForEach(func(_, choice gjson.Result) bool {
		content := choice.Get("message.content")
		if content.Type == gjson.String && choice.Get("finish_reason").Str == "stop" &&
			choice.Get("message.refusal").Str == "" {
			texts = append(texts, content.Str)
		}
		return true
	})
	return texts
}
