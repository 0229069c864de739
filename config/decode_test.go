package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// base is a good file; %s is where a test adds keys of the only upstream.
const base = `upstreams:
  - name: main
    base_url: http://127.0.0.1:8000/v1
%smodels:
  - id: chat
    context_tokens: 8192
    price: { input: 1, output: 2 }
    targets: [{ upstream: main }]
`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused returns the error text of a file that must not load.
func refused(t *testing.T, text string) string {
	t.Helper()
	c, err := Parse("test.yaml", []byte(text), testEnv)
	if err == nil || c != nil {
		t.Fatalf("accepted: %.200s", text)
	}
	return err.Error()
}

// 1.54 is not a float64. A price that is converted to one is slightly wrong, and so is
// every invoice.
func TestPricesAreExactHoweverTheyAreWritten(t *testing.T) {
	f := func(written string, want Pico) {
		t.Helper()
		c := parse(t, strings.Replace(fmt.Sprintf(base, ""), "input: 1,", "confirmed: true, input: "+written+",", 1))
		if got := c.Models[0].Spec.(*Chat).Price.Input; got != want {
			t.Errorf("%s is read as %d pico a token, want %d", written, got, want)
		}
	}
	f("1.54", 1_540_000)
	f(`"1.54"`, 1_540_000)
	f("'1.54'", 1_540_000)
	f("0.000001", 1)
	f("0.1500000000", 150_000)
	f("3", 3_000_000)
	f("100000", 100_000_000_000)
	f("0.30000000000000", 300_000)
	f("4.35", 4_350_000) // float64: 4.3499999999999996
}

func TestFreeMustBeSaid(t *testing.T) {
	c := parse(t, strings.Replace(fmt.Sprintf(base, ""), "{ input: 1, output: 2 }", "free", 1))
	if p := c.Models[0].Spec.(*Chat).Price; p == nil || !p.Free || p.Input != 0 {
		t.Errorf("price: free is %+v", p)
	}
}

// An explicit 0 switches off; a missing key does not.
func TestWrittenZeroIsNotTheDefault(t *testing.T) {
	c := parse(t, fmt.Sprintf(base, "    breaker: { failures: 0 }\n")+
		"log: { sample_above: 0 }\nlimits: { failed_requests: { count: 0 } }\n")
	if c.Upstreams[0].Breaker.Failures != 0 || c.Upstreams[0].Breaker.OpenFor != 10*time.Second {
		t.Errorf("breaker is %+v", c.Upstreams[0].Breaker)
	}
	if c.Log.SampleAbove != 0 || c.Limits.FailedRequests.Count != 0 ||
		c.Limits.FailedRequests.Window != 30*time.Second {
		t.Errorf("log %+v, budget %+v", c.Log, c.Limits.FailedRequests)
	}
	c = parse(t, fmt.Sprintf(base, "    breaker:\n")+"log:\n")
	if c.Upstreams[0].Breaker.Failures != 5 || c.Log.SampleAbove != 100 {
		t.Errorf("an empty group lost its defaults: %+v %+v", c.Upstreams[0].Breaker, c.Log)
	}
}

// Raising one limit of a tier must not lift the others.
func TestOverriddenTierKeepsItsOtherLimits(t *testing.T) {
	c := parse(t, fmt.Sprintf(base, "")+"limits: { tiers: { M: { rpm: 90 }, own: { tpm: 5 } } }\n")
	if got := c.Limits.Tiers["M"]; got != (Rate{RPM: 90, TPM: 750_000}) {
		t.Errorf("tier M is %+v", got)
	}
	if got := c.Limits.Tiers["own"]; got != (Rate{TPM: 5}) {
		t.Errorf("tier own is %+v", got)
	}
	if again := newConfig().Limits.Tiers["M"]; again.RPM != 50 {
		t.Errorf("a file has changed the built-in tier for all: %+v", again)
	}
}

func TestReferencesInValues(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(written, want string) {
		t.Helper()
		c := parse(t, fmt.Sprintf(base, "    headers:\n      X-Key: "+written+"\n"))
		if got := c.Upstreams[0].Headers["X-Key"].Reveal(); got != want {
			t.Errorf("%s becomes %q, want %q", written, got, want)
		}
	}
	f("${UPSTREAM_KEY}", "sk-from-the-environment")
	f("Bearer ${UPSTREAM_KEY}", "Bearer sk-from-the-environment")
	f("${NO_SUCH_KEY:-other}", "other")
	f("${EMPTY:-other}", "other")
	f("${NO_SUCH_KEY:-}", "")
	f("${UPSTREAM_KEY:-other}", "sk-from-the-environment")
	f("$${UPSTREAM_KEY}", "${UPSTREAM_KEY}")
	f("a$UPSTREAM_KEY", "a$UPSTREAM_KEY")
	f("a$${x}${NUMBER}b", "a${x}4096b")
	f("${file:"+write("key", "sk-file\n")+"}", "sk-file")
	f("${file:"+write("crlf", "sk-file\r\n")+"}", "sk-file")
	// The value of a reference is data, not a reference.
	f("${file:"+write("nested", "${UPSTREAM_KEY}")+"}", "${UPSTREAM_KEY}")
}

func TestSecretFileThatIsTooLargeOrEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	f := func(size int, want string) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := refused(t, fmt.Sprintf(base, "    key: ${file:"+path+"}\n")); !strings.Contains(got, want) {
			t.Errorf("%d bytes: %s", size, got)
		}
	}
	f(0, "is empty")
	f(8, "not UTF-8 text") // NUL bytes
	f(maxSecretFile+1, "is larger than 64KB")
}

// A device in place of a file would fill the memory, a pipe would block forever.
func TestSecretFileThatNeverEnds(t *testing.T) {
	got := refused(t, fmt.Sprintf(base, "    key: ${file:"+os.DevNull+"}\n"))
	if !strings.Contains(got, "not a regular file") {
		t.Error(got)
	}
}

// The excerpt of an error must never print the key beside it.
func TestExcerptsNeverShowSecrets(t *testing.T) {
	const key = "sk-live-VERYSECRET"
	for name, text := range map[string]string{
		"flow":               "upstreams: [{ name: a b, key: " + key + ", base_url: ftp://x }]\n",
		"quoted":             "upstreams: [{ name: a b, key: '" + key + "', base_url: ftp://x }]\n",
		"json":               `{"upstreams":[{"name":"a b","key":"` + key + `","headers":{"X":"` + key + `"}}]}` + "\n",
		"group for list":     "upstreams: { name: main, key: " + key + " }\n",
		"text for list":      "upstreams:\n  key: " + key + "\n",
		"list for group":     "upstreams:\n  - - key: " + key + "\n",
		"twice":              fmt.Sprintf(base, "    key: a\n    key: "+key+"\n"),
		"header twice":       fmt.Sprintf(base, "    headers: { X-A: \"1\", X-A: "+key+" }\n"),
		"headers as text":    fmt.Sprintf(base, "    headers: 'Authorization: "+key+"'\n"),
		"headers as list":    fmt.Sprintf(base, "    headers: [ \"Authorization: "+key+"\" ]\n"),
		"mistyped":           fmt.Sprintf(base, "    kye: "+key+"\n"),
		"mistyped group":     fmt.Sprintf(base, "    header: { X-A: "+key+" }\n"),
		"default":            fmt.Sprintf(base, "    key: \"${NO_SUCH:-"+key+" }\"\n"),
		"block":              fmt.Sprintf(base, "    key: |\n      "+key+"\n      second\n"),
		"multi-line plain":   fmt.Sprintf(base, "    kye: a\n      "+key+"\n"),
		"multi-line quoted":  fmt.Sprintf(base, "    key: \"a\\n\n      "+key+"\"\n"),
		"bad yaml":           fmt.Sprintf(base, "    key: "+key+": x\n"),
		"bad yaml in header": fmt.Sprintf(base, "    headers:\n      X-A: "+key+": x\n"),
		"bad yaml in block":  fmt.Sprintf(base, "    key: |\n      a\n   "+key+": x\n"),
		"bad yaml in flow":   "upstreams: [{ name: a, key: " + key + ", ]\n",
		"open quote":         fmt.Sprintf(base, "    key: \""+key+"\n"),
		"with a tab":         fmt.Sprintf(base, "\tkey: "+key+"\n"),
		"anchor":             "log: &a { key: " + key + " }\n",
		"control character":  fmt.Sprintf(base, "    key: "+key+"\x01\n"),
		"password in URL":    strings.Replace(fmt.Sprintf(base, ""), "http://", "http://u:"+key+"@", 1),
		"open URL":           strings.Replace(fmt.Sprintf(base, ""), "http://", "http//u:"+key+"@", 1),
		"store":              "store: postgres://u:" + key + "@db/x\n",
		"elsewhere":          "api_key: " + key + "\n",
	} {
		if got := refused(t, text); strings.Contains(got, "VERYSECRET") {
			t.Errorf("%s: the report shows the key:\n%s", name, got)
		}
	}
}

func TestSecretsDoNotPrintThemselves(t *testing.T) {
	c := parse(t, fmt.Sprintf(base, "    key: ${UPSTREAM_KEY}\n    headers: { X-A: \"${UPSTREAM_KEY}\" }\n"))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, c.Upstreams); strings.Contains(got, "sk-from-the-environment") {
			t.Errorf("%s prints the key: %s", format, got)
		}
	}
}

// One run reports all errors of a file.
func TestAllMistakesComeAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := Parse("x", []byte("brand: A\nlog: { level: x }\nserver: { max_body: 1 }\nzebra: 1\n"), nil)
	p, ok := err.(*Problems)
	if !ok || len(p.List) != 6 {
		t.Fatalf("want 6 problems, got %v", err)
	}
	for i := 1; i < len(p.List); i++ {
		if p.List[i].Line < p.List[i-1].Line {
			t.Errorf("line %d comes after line %d", p.List[i].Line, p.List[i-1].Line)
		}
	}
	if one := p.List[len(p.List)-1]; one.File != "x" || one.Line != 4 || one.Column != 1 || one.Path != "zebra" ||
		one.Excerpt == "" || one.Message == "" {
		t.Errorf("a part is missing: %+v", one)
	}
}

// The caret must point at the value also after wide letters and tabs, and in lines that
// are too long to show.
func TestCaretPointsAtTheValue(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := refused(t, text); !strings.Contains(got, want) {
			t.Errorf("got:\n%s\nwant in it:\n%s", got, want)
		}
	}
	f("brand: \"日本\" # ü\n", "1 | brand: \"日本\" # ü\n       |        ^")
	f("brand:\tX\n", "1 | brand:\tX\n       |       \t^")
	behind := func(before string) {
		t.Helper()
		f(before+"X }\n", before+"X }\n       | "+strings.Repeat(" ", len(before))+"^")
	}
	behind(`{ docs_url: "\u0041\n", brand: `)
	behind(`{ docs_url: 'it''s', brand: `)
	f("docs_url: \"a\n\n  b\"\nbrand: X\n", "test.yaml:4:8: brand")
	f("{ docs_url: 'https://example.com/"+strings.Repeat("a", 300)+"', brand: X }\n",
		", brand: X }\n       |                                                              ^")
}

func TestSummary(t *testing.T) {
	got := Summary(load(t, "examples/failover.yaml"))
	want := "failover.yaml is good: 4 upstreams, 2 models (2 text), 1 alias, 10 tiers; http on 0.0.0.0:8080, ledger " +
		"in /var/lib/farebox"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
