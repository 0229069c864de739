package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/fair"
	"farebox/providers/jail"
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
		{person, `{"name":"a","age":1} and more`, "it has text after its JSON"},
		{person, `{"name":"a"`, "it is not JSON"},
		{person, ``, "it is not JSON"},
		{person, "```json\n{}\n```", "it is not JSON"},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
			`{"next":{"next":{"next":1}}}`, "at /next/next/next: got number, want object"},
		{`{"type":"integer"}`, `123456789012345678901234567890`, ""},
	} {
		err := c.Conforms(t.Context(), []byte(x.schema), []string{x.answer})
		var no *Violation
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s is refused: %v", x.answer, err)
		case x.want != "" && (!errors.As(err, &no) || !strings.Contains(no.Text, x.want)):
			t.Errorf("%s: %v; expected %q", x.answer, err, x.want)
		}
	}
	err := c.Conforms(t.Context(), []byte(person), []string{`{"name":"a","age":3}`, `{}`})
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
		`{"type":"objekt"}`:                      "is not a JSON schema: at /type",
		`{"$ref":"https://example.com/schema"}`:  "leads out of it",
		`{"$ref":"file:///etc/passwd"}`:          "leads out of it",
		`{"$ref":"other.json"}`:                  "leads out of it",
		`{"$schema":"https://example.com/mine"}`: "leads out of it",
		`{"pattern":"(?=a)"}`:                    "is not a JSON schema",
		`{"$ref":"#/nowhere"}`:                   "is not a JSON schema",
		deep:                                     "nested deeper than 64",
		`{"description":"` + strings.Repeat("x", MaxSchema) + `"}`: "64 KiB",
	} {
		err := c.Compiles(t.Context(), []byte(schema))
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

// A check that would take forever is ended, and the next check is not held up.
func TestEndlessChecksEnd(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	// Each level of the answer doubles the work.
	const doubling = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["x"]},
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`
	answer := strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)
	err := c.Conforms(t.Context(), []byte(doubling), []string{answer})
	if !errors.Is(err, ErrUnchecked) {
		t.Errorf("an endless check came to: %v", err)
	}
	if err := c.Conforms(t.Context(), []byte(person), []string{`{"name":"a","age":3}`}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// nested are n definitions, each of which refers to the next one twice.
func nested(n int, refers string) string {
	b := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range n {
		b += fmt.Sprintf(`"d%d":%s,`, i, strings.ReplaceAll(refers, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
	}
	return b + fmt.Sprintf(`"d%d":{"type":"string"}}}`, n)
}

// "A schema of 2 KB takes two seconds, and I pay for the answer alone."
func TestSchemasOfTooManyStepsAreRefused(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	var large strings.Builder // 400 members that share a definition of 20
	for i := range 400 {
		fmt.Fprintf(&large, `"p%d":{"$ref":"#/$defs/s"},`, i)
	}
	shared := `{"properties":{` + strings.Repeat(`"x%":{"type":"string"},`, 20)
	for i := range 20 {
		shared = strings.Replace(shared, "%", fmt.Sprint(i), 1)
	}
	shared = shared[:len(shared)-1] + "}}"
	for schema, steps := range map[string]bool{
		nested(34, `{"anyOf":[NEXT,NEXT]}`):                                                true,
		nested(34, `{"allOf":[NEXT],"oneOf":[NEXT]}`):                                      true,
		nested(34, `{"not":NEXT,"if":NEXT}`):                                               true,
		nested(34, `{"properties":{"a":NEXT},"additionalProperties":NEXT}`):                true,
		nested(34, `{"items":NEXT,"contains":NEXT}`):                                       true,
		nested(34, `{"prefixItems":[NEXT],"patternProperties":{"^a":NEXT}}`):               true,
		nested(34, `{"dependentSchemas":{"a":NEXT},"propertyNames":NEXT}`):                 true,
		nested(10, `{"anyOf":[NEXT,NEXT]}`):                                                false,
		nested(60, `{"anyOf":[NEXT,{"type":"null"}]}`):                                     false,
		`{"properties":{` + large.String() + `"z":{}},"$defs":{"s":` + shared + `}}`:       false,
		`{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"$ref":"#/$defs/n"}}}}}`:     false,
		`{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}},{"$ref":"#"}]}`: false,
	} {
		began := time.Now()
		err := c.Compiles(t.Context(), []byte(schema))
		var bad *Bad
		if steps != (errors.As(err, &bad) && strings.Contains(bad.Text, "too many steps")) || !steps && err != nil {
			t.Errorf("%.100s: %v", schema, err)
		}
		t.Logf("%6d bytes, %v: %.60s", len(schema), time.Since(began).Round(time.Millisecond), schema)
	}
}

// "Somebody checks a hundred answers at once, and mine is withheld."
func TestAnHonestCheckWaitsForOneRunningCheck(t *testing.T) {
	c := New(zerolog.Nop())
	defer c.Close()
	const doubling = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["x"]},
		{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`
	answer := strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)
	ctx, stop := context.WithCancel(fair.With(t.Context(), fair.Paid(1)))
	var began atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_ = c.Conforms(jail.OnStart(ctx, func() { began.Add(1) }), []byte(doubling), []string{answer})
		})
	}
	for c.children.Waiting() < workers+queue || began.Load() < workers {
		time.Sleep(time.Millisecond)
	}
	before, ahead := began.Load(), int64(0)
	honest := jail.OnStart(fair.With(t.Context(), fair.Paid(2)), func() { ahead = began.Load() - before })
	if err := c.Conforms(honest, []byte(person), []string{`{"name":"a","age":3}`}); err != nil {
		t.Errorf("the honest answer: %v", err)
	}
	if ahead > workers {
		t.Errorf("%d more checks of the greedy one began before it", ahead)
	}
	stop()
	all.Wait()
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
