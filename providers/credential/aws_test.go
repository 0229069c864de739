package credential

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/proxy"
)

// suiteSpec has the keys of AWS's public signature test suite.
func suiteSpec() Spec {
	return Spec{Kind: Signature, AccessKey: "AKIDEXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		Region: "us-east-1", Service: "service"}
}

var suiteTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

func signatureIn(t *testing.T, lines []byte) string {
	t.Helper()
	_, after, ok := strings.Cut(string(lines), "Signature=")
	if !ok {
		t.Fatalf("no signature in %q", lines)
	}
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

func TestSignaturesAreThoseOfThePublicSuite(t *testing.T) {
	g := newSigner(suiteSpec(), zerolog.Nop())
	defer g.Close()
	g.now = func() time.Time { return suiteTime }
	f := func(name string, q proxy.Unproven, want string) {
		t.Helper()
		q.Host = "example.amazonaws.com"
		lines, err := g.AppendFields(nil, &q)
		if err != nil {
			t.Fatal(err)
		}
		if got := signatureIn(t, lines); got != want {
			t.Errorf("%s: %s\nwant %s\n%s", name, got, want, lines)
		}
		if !strings.Contains(string(lines), "X-Amz-Date: 20150830T123600Z\r\n") {
			t.Errorf("%s has no date: %s", name, lines)
		}
	}
	const vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
	f("get-vanilla", proxy.Unproven{Method: "GET", Path: []byte("/")}, vanilla)
	f("get-vanilla-query", proxy.Unproven{Method: "GET", Path: []byte("/"), Query: []byte("?")}, vanilla)
	f("get-vanilla-query-order-key-case", proxy.Unproven{Method: "GET", Path: []byte("/"),
		Query: []byte("?Param2=value2&Param1=value1")},
		"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")
	f("post-vanilla", proxy.Unproven{Method: "POST", Path: []byte("/")},
		"5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b")
}

// The signature covers the body that goes out, not the one that came in.
func TestSignaturesCoverThePatchedBody(t *testing.T) {
	g := newSigner(suiteSpec(), zerolog.Nop())
	defer g.Close()
	g.now = func() time.Time { return suiteTime }
	sign := func(q proxy.Unproven) string {
		q.Method, q.Host, q.Prefix, q.Path = "POST", "h", "/openai/v1", []byte("/chat/completions")
		lines, err := g.AppendFields(nil, &q)
		if err != nil {
			t.Fatal(err)
		}
		return signatureIn(t, lines)
	}
	whole := sign(proxy.Unproven{Body: []byte(`{"model":"theirs","stream":true}`)})
	patched := sign(proxy.Unproven{Body: []byte(`{"model":"ours","x":1}`), Patches: []proxy.Patch{
		{From: 9, To: 15, With: []byte(`"theirs"`)}, {From: 16, To: 21, With: []byte(`"stream":true`)}}})
	if whole != patched {
		t.Error("a patched body is signed as another one")
	}
	if whole == sign(proxy.Unproven{Body: []byte(`{"model":"ours","x":1}`)}) {
		t.Error("the body does not matter")
	}
}

// A refusal that the clock is to blame for is not sent again. The operator reads by how much.
func TestAWrongClockIsReported(t *testing.T) {
	var log bytes.Buffer
	g := newSigner(suiteSpec(), zerolog.New(&log))
	defer g.Close()
	now := suiteTime
	g.now = func() time.Time { return now }
	q := proxy.Unproven{Method: "GET", Host: "h", Path: []byte("/")}
	lines, err := g.AppendFields(nil, &q)
	if err != nil || !strings.Contains(string(lines), "X-Amz-Date: 20150830T123600Z") {
		t.Fatalf("signed at %s, %v", lines, err)
	}
	f := func(off time.Duration, want string) {
		t.Helper()
		log.Reset()
		if g.Refused(&q, 403, []byte(now.Add(off).Format(http.TimeFormat))) {
			t.Error("it is sent again")
		}
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") || strings.Contains(got, "wJalr") {
			t.Errorf("the log: %s, want %q", got, want)
		}
	}
	f(3*time.Minute, "")
	f(-time.Hour, "whose clock is 1h0m0s ahead of AWS's: set the clock")
	f(-time.Hour, "") // not once for each request
	now = now.Add(2 * skewWarnings)
	f(10*time.Minute, "whose clock is 10m0s behind AWS's: set the clock")
	if log.Reset(); g.Refused(&q, 403, nil) || g.Refused(&q, 403, []byte("yesterday")) || log.Len() > 0 {
		t.Errorf("no date is a wrong clock: %s", log.String())
	}
}

const twoProfiles = `# comment
[default]
aws_access_key_id = AKIDONE
aws_secret_access_key=one/secret+=

[work]
aws_access_key_id=AKIDTWO
aws_secret_access_key = two
aws_session_token = session==
region = us-east-1
`

func TestProfilesAreReadAsAWSWritesThem(t *testing.T) {
	f := func(text, profile string, want awsKeys, wrong string) {
		t.Helper()
		got, err := parseProfile([]byte(text), profile)
		if got != want || (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %+v, %v", profile, got, err)
		}
	}
	f(twoProfiles, "", awsKeys{"AKIDONE", "one/secret+=", ""}, "")
	f(twoProfiles, "work", awsKeys{"AKIDTWO", "two", "session=="}, "")
	f(strings.ReplaceAll(twoProfiles, "[work]", "[profile work] ; the one"), "work", awsKeys{"AKIDTWO", "two", "session=="}, "")
	f(strings.ReplaceAll(twoProfiles, "\n", "\r\n"), "work", awsKeys{"AKIDTWO", "two", "session=="}, "")
	f(twoProfiles, "other", awsKeys{}, "no section [other]")
	f("", "", awsKeys{}, "no section [default]")
	f("[default]\naws_access_key_id=A\n", "", awsKeys{}, "no aws_secret_access_key")
	f("[default]\naws_secret_access_key=A\n", "", awsKeys{}, "no aws_access_key_id")
	f("[default]\naws_access_key_id=A B\naws_secret_access_key=c\n", "", awsKeys{}, "aws_access_key_id is invalid")
	f("[default]\naws_access_key_id=A\naws_secret_access_key=c\naws_session_token=\x00\n", "", awsKeys{}, "session_token")
}

func TestNewAWSKeysAreTakenFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(twoProfiles)
	s := Spec{Kind: Signature, File: path, Region: "us-east-1", Service: "bedrock"}
	c, err := Open(s, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := proxy.Unproven{Method: "GET", Host: "h", Path: []byte("/")}
	lines, _ := c.AppendFields(nil, &q)
	if !strings.Contains(string(lines), "Credential=AKIDONE/") {
		t.Fatalf("%s", lines)
	}
	if c.Refused(&q, 403, nil) {
		t.Error("the same keys are to be sent again")
	}
	write(strings.ReplaceAll(twoProfiles, "AKIDONE", "AKIDNEW"))
	if !c.Refused(&q, 403, nil) { // before the file is looked at by itself
		t.Fatal("new keys were not found when the old ones were refused")
	}
	if lines, _ = c.AppendFields(nil, &q); !strings.Contains(string(lines), "Credential=AKIDNEW/") {
		t.Errorf("%s", lines)
	}
	write("nonsense")
	time.Sleep(filePoll + 100*time.Millisecond)
	if lines, err = c.AppendFields(nil, &q); err != nil || !strings.Contains(string(lines), "Credential=AKIDNEW/") {
		t.Errorf("a broken file: %s, %v", lines, err)
	}
}

func TestASessionTokenIsSignedToo(t *testing.T) {
	s := suiteSpec()
	s.SessionToken = config.Secret("session")
	g := newSigner(s, zerolog.Nop())
	defer g.Close()
	lines, err := g.AppendFields(nil, &proxy.Unproven{Method: "GET", Host: "h", Path: []byte("/")})
	if err != nil || !strings.Contains(string(lines), "X-Amz-Security-Token: session\r\n") ||
		!strings.Contains(string(lines), "SignedHeaders=host;x-amz-date;x-amz-security-token") {
		t.Errorf("%s %v", lines, err)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add([]byte(twoProfiles), "work")
	f.Add([]byte("[default]\naws_access_key_id=A\naws_secret_access_key=B"), "")
	f.Add([]byte("[[]\n=\n[ default ]x"), "default")
	f.Fuzz(func(t *testing.T, data []byte, profile string) {
		k, err := parseProfile(data, profile)
		if err == nil && (k.access == "" || k.secret == "" || strings.ContainsAny(k.access+k.session, "\r\n ")) {
			t.Errorf("%+v", k)
		}
	})
}
