package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Azure has the settings of dialect azure. The base_url is that of the resource,
// https://NAME.openai.azure.com.
type Azure struct {
	// A date such as 2024-10-21 or 2025-04-01-preview sends requests to the addresses of deployments. preview is the
	// v1 API with features that are not final. Default: the v1 API.
	APIVersion string `yaml:"api_version"`
}

// azurePreview asks the v1 API for features that are not final yet.
const azurePreview = "preview"

// Deployments says that requests go to the addresses of deployments.
func (a *Azure) Deployments() bool { return a.APIVersion != "" && a.APIVersion != azurePreview }

// AWS has the settings of dialect bedrock.
type AWS struct {
	// Region such as us-east-1. base_url follows from it.
	Region string `yaml:"region"`
	// API by the vendor of the models: openai or anthropic. Default openai.
	API string `yaml:"api" oneof:"|openai anthropic"`
	// Service that is asked: runtime or mantle. Default: runtime, and mantle for api: anthropic.
	Endpoint string `yaml:"endpoint" oneof:"|runtime mantle"`
	// Access key that signs each request (SigV4). Default: none.
	AccessKey Secret `yaml:"access_key"`
	// Secret of access_key.
	SecretKey Secret `yaml:"secret_key"`
	// Session of temporary keys. Default: none.
	SessionToken Secret `yaml:"session_token"`
	// File with credentials in place of the three keys above, such as ~/.aws/credentials. It is read again when it
	// changes. Default: none.
	CredentialsFile string `yaml:"credentials_file"`
	// Section of credentials_file. Default: default.
	Profile string `yaml:"profile"`
}

// Signs says that requests are signed, and not shown a key.
func (a *AWS) Signs() bool { return a.AccessKey != "" || a.CredentialsFile != "" }

func (a *AWS) endpoint() string {
	switch {
	case a.Endpoint != "":
		return a.Endpoint
	case a.API == "anthropic":
		return "mantle"
	}
	return "runtime"
}

// Service is the name of the service in signatures.
func (a *AWS) Service() string {
	if a.endpoint() == "mantle" {
		return "bedrock-mantle"
	}
	return "bedrock"
}

// Google has the settings of dialect vertex.
type Google struct {
	// Id or number of the project.
	Project string `yaml:"project"`
	// global, us, eu, or a region such as us-east5. base_url follows from it. Default global.
	Location string `yaml:"location"`
	// Vendor of the models: google or anthropic. Default google.
	Publisher string `yaml:"publisher" oneof:"|google anthropic"`
	// Key file of a service account, in JSON. Tokens are fetched ahead of time.
	KeyFile string `yaml:"key_file"`
	// Where tokens are fetched, https://. Default: the address in the key file, if it is Google's.
	TokenURL string `yaml:"token_url"`
}

// Spoken is the dialect, with the API of an upstream of several behind a slash.
func (u *Upstream) Spoken() string {
	switch {
	case u.Dialect == "bedrock" && u.AWS.API == "anthropic", u.Dialect == "vertex" && u.Google.Publisher == "anthropic":
		return u.Dialect + "/anthropic"
	}
	return u.Dialect
}

// EndpointURL is the address that the upstream's endpoints are below.
func (u *Upstream) EndpointURL() string {
	base := strings.TrimRight(u.BaseURL, "/")
	switch u.Spoken() {
	case "azure":
		if u.Azure.Deployments() {
			return base + "/openai/deployments"
		}
		return base + "/openai/v1"
	case "bedrock":
		return base + "/openai/v1"
	case "bedrock/anthropic":
		return base + "/anthropic/v1"
	case "vertex", "vertex/anthropic":
		return base + "/v1/projects/" + u.Google.Project + "/locations/" + u.Google.Location + "/publishers/" +
			u.Google.Publisher
	}
	return u.BaseURL
}

// Query is the query string of every path.
func (u *Upstream) Query() string {
	if u.Azure.APIVersion != "" {
		return "api-version=" + u.Azure.APIVersion
	}
	return ""
}

// TokenHeader is the header that carries the token of token_file, and what
// precedes it there.
func (u *Upstream) TokenHeader() (name, prefix string) {
	if u.Dialect == "azure" {
		return bearer.header, bearer.prefix // only keys have a header of their own
	}
	return u.KeyHeader()
}

// completeCloud fills in the addresses that follow from a region.
func (u *Upstream) completeCloud() {
	switch u.Dialect {
	case "bedrock":
		if u.AWS.API == "" {
			u.AWS.API = "openai"
		}
		if u.BaseURL == "" && u.AWS.Region != "" {
			u.BaseURL = "https://" + u.AWS.host()
		}
	case "vertex":
		if u.Google.Location == "" {
			u.Google.Location = "global"
		}
		if u.Google.Publisher == "" {
			u.Google.Publisher = "google"
		}
		if u.BaseURL == "" {
			u.BaseURL = "https://" + u.Google.host()
		}
	}
}

func (a *AWS) host() string {
	if a.endpoint() == "mantle" {
		return "bedrock-mantle." + a.Region + ".api.aws"
	}
	suffix := "amazonaws.com"
	if strings.HasPrefix(a.Region, "cn-") {
		suffix += ".cn"
	}
	return "bedrock-runtime." + a.Region + "." + suffix
}

func (g *Google) host() string {
	switch g.Location {
	case "global":
		return "aiplatform.googleapis.com"
	case "us", "eu":
		return "aiplatform." + g.Location + ".rep.googleapis.com"
	}
	return g.Location + "-aiplatform.googleapis.com"
}

var (
	awsRegion      = regexp.MustCompile(`^[a-z]{2,8}(-[a-z0-9]{2,16}){1,3}-[0-9]{1,2}$`)
	awsAccessKey   = regexp.MustCompile(`^[A-Za-z0-9]{4,128}$`)
	awsProfile     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 _./@+-]{0,63}$`)
	googleProject  = regexp.MustCompile(`^(?:(?:[a-z0-9.-]{1,64}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]{6,20})$`)
	googleLocation = regexp.MustCompile(`^(?:global|us|eu|[a-z]{2,20}-[a-z]{2,20}[0-9]{1,2})$`)
	azureVersion   = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})(?:-preview)?$`)
	cloudModel     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$`)
)

// cloud checks the keys of cloud dialects, and that no other has them.
func (v *validator) cloud(path string, u *Upstream) {
	for _, group := range []struct {
		key, dialect string
		written      bool
	}{
		{"azure", "azure", u.Azure != (Azure{})}, {"aws", "bedrock", u.AWS != (AWS{})},
		{"google", "vertex", u.Google != (Google{})},
	} {
		if group.written && u.Dialect != group.dialect {
			v.wrong(path+"."+group.key, "the upstream has dialect %s; expected it at an upstream of dialect %s",
				u.Dialect, group.dialect)
		}
	}
	v.oneCredential(path, u)
	switch u.Dialect {
	case "azure":
		v.azure(path, u)
	case "bedrock":
		v.bedrock(path, u)
	case "vertex":
		v.vertex(path, u)
	default:
		return
	}
	if strings.HasPrefix(u.BaseURL, "unix:") {
		v.wrong(path+".base_url", "a socket cannot be asked in dialect %s; expected https://host", u.Dialect)
	}
}

// oneCredential rejects two credentials on one upstream.
func (v *validator) oneCredential(path string, u *Upstream) {
	var have []string
	for _, c := range []struct {
		name string
		set  bool
	}{
		{"key", u.Key != ""}, {"token_file", u.TokenFile != ""}, {"aws.access_key", u.AWS.AccessKey != ""},
		{"aws.credentials_file", u.AWS.CredentialsFile != ""}, {"google.key_file", u.Google.KeyFile != ""},
	} {
		if c.set {
			have = append(have, c.name)
		}
	}
	if len(have) > 1 {
		v.wrong(path+"."+have[1], "the upstream has both %s and %s; expected one of them", have[0], have[1])
		return
	}
	if len(have) > 0 {
		return
	}
	switch u.Dialect {
	case "azure":
		v.wrong(path+".key", "the upstream has no credential; expected key or token_file")
	case "bedrock":
		v.wrong(path+".key", "the upstream has no credential; expected key, token_file, aws.access_key or "+
			"aws.credentials_file")
	case "vertex":
		v.wrong(path+".google.key_file", "the upstream has no credential; expected google.key_file or token_file")
	}
}

func (v *validator) azure(path string, u *Upstream) {
	if at, err := url.Parse(u.BaseURL); err == nil && strings.Contains(at.Path+"/", "/openai/") {
		v.wrong(path+".base_url", "%s goes below the resource; expected what stands before /openai, such as "+
			"https://NAME.openai.azure.com", v.shown(path+".base_url"))
	}
	text := u.Azure.APIVersion
	if text == "" || text == azurePreview {
		return
	}
	date := azureVersion.FindStringSubmatch(text)
	if date != nil {
		if _, err := time.Parse(time.DateOnly, date[1]); err == nil {
			return
		}
	}
	v.wrong(path+".azure.api_version", "%s is not a version of the API; expected a date such as 2024-10-21 or "+
		"2025-04-01-preview for the addresses of deployments, or preview or nothing for the v1 API",
		v.shown(path+".azure.api_version"))
}

func (v *validator) bedrock(path string, u *Upstream) {
	at, a := path+".aws", &u.AWS
	if a.Endpoint == "runtime" && a.API == "anthropic" {
		v.wrong(at+".endpoint", "runtime has no endpoint for api: anthropic; expected endpoint: mantle")
	}
	switch {
	case a.Region == "" && u.BaseURL == "":
		v.wrong(at+".region", "the upstream has neither a region nor a base_url; expected a region such as us-east-1")
		v.bad[path+".base_url"] = true // follows from it
	case a.Region == "" && a.Signs():
		v.wrong(at+".region", "requests are signed for a region; expected one such as us-east-1")
	case a.Region != "" && !awsRegion.MatchString(a.Region):
		v.wrong(at+".region", "%s is not a region; expected one such as us-east-1", v.shown(at+".region"))
	}
	for _, s := range []struct {
		name string
		text Secret
	}{{"access_key", a.AccessKey}, {"secret_key", a.SecretKey}, {"session_token", a.SessionToken}} {
		v.headerValue(at+"."+s.name, s.text)
	}
	switch {
	case a.AccessKey == "" && (a.SecretKey != "" || a.SessionToken != ""):
		v.wrong(at+".access_key", "secret_key and session_token need an access_key; expected all of one set")
	case a.AccessKey != "" && a.SecretKey == "":
		v.wrong(at+".secret_key", "access_key needs a secret_key; expected both of one set")
	case a.AccessKey != "" && !awsAccessKey.MatchString(a.AccessKey.Reveal()):
		v.wrong(at+".access_key", "this is not an access key; expected letters and digits, such as AKIA…")
	}
	if a.Profile != "" && a.CredentialsFile == "" {
		v.wrong(at+".profile", "there is no credentials_file that could have a profile; expected both or neither")
	} else if a.Profile != "" && !awsProfile.MatchString(a.Profile) {
		v.wrong(at+".profile", "%s is not a profile name; expected 1 to 64 letters, digits and _./@+-",
			v.shown(at+".profile"))
	}
}

func (v *validator) vertex(path string, u *Upstream) {
	at, g := path+".google", &u.Google
	switch {
	case g.Project == "":
		v.wrong(at+".project", "the upstream has no project; expected its id, such as my-project-1")
	case !googleProject.MatchString(g.Project):
		v.wrong(at+".project", "%s is not a project id; expected 6 to 30 lower-case letters, digits and -, or its "+
			"number", v.shown(at+".project"))
	}
	if !googleLocation.MatchString(g.Location) {
		v.wrong(at+".location", "%s is not a location; expected global, us, eu or a region such as us-east5",
			v.shown(at+".location"))
		v.bad[path+".base_url"] = true // follows from it
	}
	if u.Key != "" {
		v.wrong(path+".key", "dialect vertex takes tokens and no keys; expected google.key_file or token_file")
	}
	if g.TokenURL == "" {
		return
	}
	to, err := url.Parse(g.TokenURL)
	loopback := err == nil && (to.Hostname() == "127.0.0.1" || to.Hostname() == "localhost" || to.Hostname() == "::1")
	switch {
	case g.KeyFile == "":
		v.wrong(at+".token_url", "there is no key_file to get tokens with; expected both or neither")
	case err != nil || badHost(to) || to.User != nil || to.Fragment != "":
		v.wrong(at+".token_url", "this is not an address; expected https://host/path")
	case to.Scheme != "https" && (to.Scheme != "http" || !loopback):
		v.wrong(at+".token_url", "%s is not https; expected https://host/path, or http:// of this machine",
			v.shown(at+".token_url"))
	}
}

// cloudName refuses names that cannot be in the path of a request.
func (v *validator) cloudName(path string, t *Target, u *Upstream, id string) {
	name := t.Model
	if name == "" {
		name = id
	}
	if inPath := u.Dialect == "vertex" || u.Dialect == "azure" && u.Azure.Deployments(); inPath &&
		!cloudModel.MatchString(name) {
		v.wrong(path+".model", "%s is part of the request address at upstream %s; expected 1 to 128 letters, "+
			"digits and ._@-", fmt.Sprintf("%q", clip(name)), quote(t.Upstream))
	}
}
