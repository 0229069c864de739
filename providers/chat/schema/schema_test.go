package schema

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) {
	Work()
	_ = os.Unsetenv("FAREBOX_JAIL")
	os.Exit(m.Run())
}

const person = `{"type":"object","properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer"}},
	"required":["name","age"],"additionalProperties":false}`

func TestAnswersAreChecked(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	for _, x := range []struct{ schema, answer, want string }{
		{person, `{"name":"a","age":3}`, ""},
		{person, ` {"age":3e0,"name":"a"} `, ""},
		{person, `{"name":"a"}`, "at its top: missing property 'age'"},
		{person, `{"name":"","age":1}`, "at /name: minLength"},
		{person, `{"name":"a","age":1,"more":1}`, "additional properties 'more' not allowed"},
		{person, `{"name":"a","age":1} and more`, "something stands behind its JSON"},
		{person, `{"name":"a"`, "it is no JSON"},
		{person, ``, "it is no JSON"},
		{person, "```json\n{}\n```", "it is no JSON"},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
			`{"next":{"next":{"next":1}}}`, "at /next/next/next: got number, want object"},
		{`{"type":"integer"}`, `123456789012345678901234567890`, ""},
	} {
		err := c.Conforms([]byte(x.schema), []string{x.answer})
		var no *Violation
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s is refused: %v", x.answer, err)
		case x.want != "" && (!errors.As(err, &no) || !strings.Contains(no.Text, x.want)):
			t.Errorf("%s: %v; expected %q", x.answer, err, x.want)
		}
	}
	err := c.Conforms([]byte(person), []string{`{"name":"a","age":3}`, `{}`})
	if err == nil || !strings.HasPrefix(err.Error(), "Choice 1 does not follow") {
		t.Errorf("of two choices: %v", err)
	}
}

func TestBadSchemasSayWhy(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	deep := strings.Repeat(`{"properties":{"a":`, 40) + "{}" + strings.Repeat("}}", 40)
	for schema, want := range map[string]string{
		`{"type":"object"}`:                      "",
		`{"type":"objekt"}`:                      "is no JSON schema: at /type",
		`{"$ref":"https://example.com/schema"}`:  "leads out of it",
		`{"$ref":"file:///etc/passwd"}`:          "leads out of it",
		`{"$ref":"other.json"}`:                  "leads out of it",
		`{"$schema":"https://example.com/mine"}`: "leads out of it",
		`{"pattern":"(?=a)"}`:                    "is no JSON schema",
		`{"$ref":"#/nowhere"}`:                   "is no JSON schema",
		deep:                                     "nested deeper than 64",
		`{"description":"` + strings.Repeat("x", MaxSchema) + `"}`: "64 KiB",
	} {
		err := c.Compiles([]byte(schema))
		var bad *Bad
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", schema, err)
		case want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Text, want)):
			t.Errorf("%.60s: %v; expected %q", schema, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "passwd") {
			t.Errorf("%s: the text says where it was looked for: %v", schema, err)
		}
	}
}

// What takes forever together is ended, and the next check is not held up.
func TestEndlessChecksEnd(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	// Each level of the answer doubles what there is to look at.
	const doubling = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["x"]},
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`
	answer := strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)
	err := c.Conforms([]byte(doubling), []string{answer})
	var no *Violation
	if !errors.As(err, &no) || !strings.Contains(no.Text, "could not be checked") {
		t.Errorf("an endless check came to: %v", err)
	}
	if err := c.Conforms([]byte(person), []string{`{"name":"a","age":3}`}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(person, `{"name":"a","age":3}`)
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(`{"type":["string","null"],"enum":[1,null]}`, `null`)
	f.Add(`{"uniqueItems":true,"items":{"const":1.0}}`, `[1,1.0]`)
	f.Add(`true`, `{"a":[[]]}`)
	f.Fuzz(func(t *testing.T, schema, answer string) {
		if len(schema) > 1<<10 || len(answer) > 1<<10 {
			return
		}
		s, err := compile([]byte(schema))
		if err != nil {
			return
		}
		if no := check(s, answer); len(no) > 400 {
			t.Errorf("%d bytes of text", len(no))
		}
	})
}
