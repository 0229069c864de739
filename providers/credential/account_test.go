package credential

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/proxy"
)

// accountOf is a service account whose tokens come from a simulated endpoint, which
// checks requests by RFC 7523.
func accountOf(t *testing.T) (*strict.Server, Spec) {
	t.Helper()
	sim := strict.New(upstream.Options{})
	base, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	s := bearerSpec()
	s.TokenURL = strings.TrimSuffix(base, "/v1") + "/vertex/token"
	s.File = filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(s.File, sim.Identity().ServiceAccount("https://oauth2.googleapis.com/token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return sim, s
}

func shown(t *testing.T, c Credential) string {
	t.Helper()
	line, err := c.AppendFields(nil, &proxy.Unproven{})
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.TrimSpace(string(line))
}

func TestAServiceAccountGetsItsToken(t *testing.T) {
	t.Parallel()
	sim, s := accountOf(t)
	c, err := Open(s, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := shown(t, c); !strings.HasPrefix(got, "Authorization: Bearer ya29.simulated-") || sim.Identity().Asked() != 1 {
		t.Errorf("%s after %d questions", got, sim.Identity().Asked())
	}
}

func TestWhatALyingTokenEndpointSaysIsNotSent(t *testing.T) {
	t.Parallel()
	sim, s := accountOf(t)
	for body, want := range map[string]string{
		`{"access_token":"a\r\nX-Evil: 1","expires_in":3600,"token_type":"Bearer"}`: "no access_token",
		`{"access_token":"","expires_in":3600}`:                                     "no access_token",
		`{"access_token":7,"expires_in":3600}`:                                      "no access_token",
		`{"access_token":"` + strings.Repeat("x", maxToken+1) + `","expires_in":9}`: "no access_token",
		`{"access_token":"a","expires_in":0}`:                                       "expires_in",
		`{"access_token":"a","expires_in":-5}`:                                      "expires_in",
		`{"access_token":"a"}`:                                                      "expires_in",
		`{"access_token":"a","expires_in":60,"token_type":"MAC"}`:                   "another type",
		`not json`: "no access_token",
		`{"access_token":"` + strings.Repeat("x", maxAnswer) + `"}`: "too large",
	} {
		sim.Identity().Lie(body)
		c, err := Open(s, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(t, c); !strings.HasPrefix(got, "error") || !strings.Contains(got, want) {
			t.Errorf("%.60s: %s", body, got)
		}
		c.Close()
	}
}

func TestATokensLifeIsBounded(t *testing.T) {
	now := time.Now()
	f := func(expires string, want time.Duration) {
		t.Helper()
		got, err := readToken(200, []byte(`{"access_token":"a","expires_in":`+expires+`}`), now)
		if err != nil || got.expires.Sub(now) != want {
			t.Errorf("%s: %s, %v", expires, got.expires.Sub(now), err)
		}
	}
	f("3599", 3599*time.Second)
	f("1", time.Second)
	f("1e300", maxLife)
	f("99999999999999999999", maxLife)
}

func TestRefusalsOfATokenEndpointSayWhatToDo(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		if _, err := readToken(status, []byte(body), time.Now()); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	f(400, `{"error":"invalid_grant","error_description":"Invalid JWT for me@secret.iam"}`,
		"the token endpoint refuses (400): invalid_grant: the key was deleted, or this machine's clock is off")
	f(500, "<html>secret</html>", "the token endpoint refuses (500)")
	f(400, `{"error":"Secret words"}`, "the token endpoint refuses (400)")
	f(302, ``, "the token endpoint refuses (302)")
}

// A user who can change the key file must not choose the endpoint that is asked and believed.
func TestKeyFilesNameGooglesTokenEndpointOnly(t *testing.T) {
	good := new(strict.Identity).ServiceAccount("https://oauth2.googleapis.com/token")
	f := func(change map[string]any, tokenURL, want string) {
		t.Helper()
		var file map[string]any
		if err := json.Unmarshal(good, &file); err != nil {
			t.Fatal(err)
		}
		for name, value := range change {
			file[name] = value
		}
		data, _ := json.Marshal(file)
		_, err := parseKeyFile(data, tokenURL)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", change, err)
		}
	}
	f(nil, "", "")
	f(map[string]any{"token_uri": "https://evil.example/token"}, "https://sts.example/token", "")
	for _, uri := range []string{"http://oauth2.googleapis.com/token", "https://oauth2.googleapis.com.evil.example/token",
		"https://evil.example/?oauth2.googleapis.com", "https://oauth2.googleapis.com@evil.example/", "", "x",
		"https://oauth2.googleapis.com:8443/token"} {
		f(map[string]any{"token_uri": uri}, "", "token_uri")
	}
	f(map[string]any{"type": "authorized_user"}, "", "service_account")
	f(map[string]any{"client_email": ""}, "", "client_email")
	f(map[string]any{"private_key": "-----BEGIN"}, "", "private_key")
	f(map[string]any{"private_key": "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"}, "", "private_key")
	if _, err := parseKeyFile([]byte("{"), ""); err == nil {
		t.Error("a file that is not JSON is accepted")
	}
}

func TestTokensOfAFileAreRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	s := bearerSpec()
	s.Kind, s.File = TokenFile, path
	c, err := Open(s, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := shown(t, c); got != "Authorization: Bearer first" {
		t.Fatal(got)
	}
	write("second")
	for end := time.Now().Add(time.Minute); shown(t, c) != "Authorization: Bearer second"; {
		if time.Now().After(end) {
			t.Fatal("the new token was not taken")
		}
		time.Sleep(10 * time.Millisecond)
	}
	write("two words") // the writer made a mistake: the last one holds
	q := &proxy.Unproven{}
	if _, err := c.AppendFields(nil, q); err != nil || c.Refused(q, 401, nil) {
		t.Errorf("a broken file: %v", err)
	}
	write("third")
	time.Sleep(refusedPause)
	if !c.Refused(q, 401, nil) || shown(t, c) != "Authorization: Bearer third" {
		t.Error("a refused token did not have the file read")
	}
}

func jwtOf(claims string) string {
	b64 := base64.RawURLEncoding
	return b64.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + b64.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestAnExpiredJWTIsNotShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	file := newTokenFile(path)
	now := time.Unix(1_800_000_000, 0)
	file.now = func() time.Time { return now }
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(jwtOf(`{"exp":1800000060}`))
	if got, err := file.get(t.Context()); err != nil || !got.expires.Equal(now.Add(time.Minute+leeway)) {
		t.Fatalf("%+v %v", got.expires, err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := file.get(t.Context()); err == nil {
		t.Error("a token that has expired is given")
	}
	write(jwtOf(`{"exp":1800000000,"older":true}`))
	if _, err := file.get(t.Context()); err == nil {
		t.Error("an older one, too")
	}
	write(jwtOf(`{"exp":1800009999}`))
	if _, err := file.get(t.Context()); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"opaque", "a.b.c", jwtOf(`{}`), jwtOf(`{"exp":"soon"}`), jwtOf(`{"exp":-1}`),
		jwtOf(`{"exp":1e99}`), jwtOf(`[`)} {
		if at, ok := jwtExpiry(text); ok {
			t.Errorf("%s ends at %s", text, at)
		}
	}
}

func FuzzJWT(f *testing.F) {
	f.Add(jwtOf(`{"exp":1800000000}`))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := jwtExpiry(text); ok && (at.Unix() < 0 || at.Unix() >= maxExpiry) {
			t.Error(at)
		}
	})
}

func FuzzTokenAnswer(f *testing.F) {
	f.Add(200, []byte(`{"access_token":"a","expires_in":3600,"token_type":"Bearer"}`))
	f.Add(400, []byte(`{"error":"invalid_grant"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		now := time.Now()
		got, err := readToken(status, body, now)
		if err == nil && (!plainToken(got.value) || got.expires.Before(now) || got.expires.Sub(now) > maxLife) {
			t.Errorf("%+v", got)
		}
	})
}

func FuzzKeyFile(f *testing.F) {
	f.Add(new(strict.Identity).ServiceAccount("https://oauth2.googleapis.com/token"))
	f.Add([]byte(`{"type":"service_account","client_email":"x","token_uri":"https://oauth2.googleapis.com/"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := parseKeyFile(data, ""); err == nil && (k.key == nil || k.email == "") {
			t.Error("a key file without a key")
		}
	})
}
