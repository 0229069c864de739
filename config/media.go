package config

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Media says where music and videos are kept until customers have fetched them.
type Media struct {
	// Directory of the results. Nodes on a shared store need one that all of them see, or s3. Default: media below
	// the directory of the ledger.
	Dir string `yaml:"dir" restart:"key"`
	// Bucket of Amazon, MinIO, Garage and others, in place of dir. Default: none.
	S3 *S3 `yaml:"s3" restart:"key"`

	// How long a result is kept that nobody fetches.
	Keep time.Duration `yaml:"keep" default:"24h" range:"10m..720h"`
	// How often results are looked for that no job has any more.
	Sweep time.Duration `yaml:"sweep" default:"1h" range:"1s..168h"`
	// Results of one account, at least max_bytes; its jobs get 429 beyond. Results of jobs that already wait are kept
	// as far as total_bytes allows; else the jobs fail and are refunded.
	AccountBytes Size `yaml:"account_bytes" default:"2GB" range:"1MB..1024GB"`
	// Results of all accounts, at least account_bytes.
	TotalBytes Size `yaml:"total_bytes" default:"50GB" range:"1MB..1048576GB"`
	// One result.
	MaxBytes Size `yaml:"max_bytes" default:"512MB" range:"1MB..5GB"`
	// Space that stays free on the disk of dir. With less free nothing is kept.
	FreeBytes Size `yaml:"free_bytes" default:"1GB" range:"0..1024GB" restart:"key"`

	// Answers name an address of the result (url), good until it is forgotten. This needs public_url, or a host in
	// listen. With false they have its bytes.
	Links bool `yaml:"links"`
	// Answers a minute at one such address; 429 beyond.
	LinkRequests int64 `yaml:"link_requests" default:"60" range:"1..100000"`
}

// S3 is a bucket of Amazon or of a compatible server.
type S3 struct {
	// Address of the service: https://host[:port]. Use http:// only for a server that is near. Required.
	Endpoint string `yaml:"endpoint"`
	// Name of the bucket: 3 to 63 lower-case letters, digits, - or . Required.
	Bucket string `yaml:"bucket"`
	// Region for signatures.
	Region string `yaml:"region" default:"us-east-1"`
	// Access key that signs requests. Default: none.
	AccessKey Secret `yaml:"access_key"`
	// Secret of access_key.
	SecretKey Secret `yaml:"secret_key"`
	// Session of temporary keys. Default: none.
	SessionToken Secret `yaml:"session_token"`
	// File with credentials in place of the three keys above, such as /home/farebox/.aws/credentials. It is read
	// again when it changes. Default: none.
	CredentialsFile string `yaml:"credentials_file"`
	// Section of credentials_file. Default: default.
	Profile string `yaml:"profile"`
	// Text before the names of all objects, such as farebox/. Default: none.
	Prefix string `yaml:"prefix"`
	// true: endpoint/bucket/name; false: bucket.endpoint/name.
	PathStyle *bool `yaml:"path_style" default:"true"`
	// Links of media lead on to the bucket (302, signed for 5 minutes). With false the gateway passes the bytes through.
	Redirect bool `yaml:"redirect"`
	// How long the server may say nothing.
	Timeout time.Duration `yaml:"timeout" default:"30s" range:"1s..10m"`
}

// MediaDir is the directory of media, where no bucket has them.
func (c *Config) MediaDir() string {
	if c.Media.Dir != "" {
		return c.Media.Dir
	}
	return filepath.Join(c.LedgerDir(), "media")
}

// MediaApart says that nodes on a shared store keep media for themselves, so that one cannot
// deliver another's.
func (c *Config) MediaApart() bool {
	return c.SharedStore() && c.Media.S3 == nil && c.Media.Dir == ""
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	s3Region   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)
	s3Prefix   = regexp.MustCompile(`^([A-Za-z0-9_.-]+/)*[A-Za-z0-9_.-]+/?$`)
	s3Access   = regexp.MustCompile(`^[!-~]{1,256}$`)
)

func (v *validator) media() {
	m := &v.c.Media
	if m.Links && v.c.PublicAddress() == "" {
		v.wrong("media.links", "the address of this service is unknown; expected public_url, "+
			"such as https://api.example.com")
	}
	switch {
	case m.AccountBytes < m.MaxBytes:
		v.wrong("media.account_bytes", "%s is less than max_bytes (%s), so that the largest result could not be kept; "+
			"expected at least as much", m.AccountBytes, m.MaxBytes)
	case m.TotalBytes < m.AccountBytes:
		v.wrong("media.total_bytes", "%s is less than account_bytes (%s), which no account could use; expected at "+
			"least as much", m.TotalBytes, m.AccountBytes)
	}
	switch {
	case strings.HasPrefix(m.Dir, "~/"):
		v.wrong("media.dir", "~ is not expanded here; expected the whole path, or ${HOME}%s", m.Dir[1:])
	case strings.Contains(m.Dir, "://"):
		v.wrong("media.dir", "%s is not a directory; expected a path such as /var/lib/farebox/media, or s3: for a "+
			"bucket", v.shown("media.dir"))
	}
	if m.S3 == nil {
		return
	}
	if m.Dir != "" {
		v.wrong("media.dir", "there is a bucket in s3: already; expected one place or the other")
	}
	v.s3("media.s3", m.S3)
}

func (v *validator) s3(at string, s *S3) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case s.Endpoint == "":
		v.wrong(at+".endpoint", "nothing says where the bucket is; expected an address such as "+
			"https://s3.us-east-1.amazonaws.com")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		v.wrong(at+".endpoint", "%s is not an address; expected one such as https://s3.us-east-1.amazonaws.com",
			v.shown(at+".endpoint"))
	case u.User != nil:
		v.src.hide(v.at[at+".endpoint"].node)
		v.wrong(at+".endpoint", "the address has credentials; expected them in access_key and secret_key")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		v.wrong(at+".endpoint", "%s has more than a host; expected the bucket in bucket:, and what stands before "+
			"names in prefix:", v.shown(at+".endpoint"))
	}
	if !bucketName.MatchString(s.Bucket) || strings.Contains(s.Bucket, "..") {
		v.wrong(at+".bucket", "%s cannot be the name of a bucket; expected 3 to 63 lower-case letters, digits, - or .",
			v.shown(at+".bucket"))
	}
	if !s3Region.MatchString(s.Region) {
		v.wrong(at+".region", "%s cannot be a region; expected one such as us-east-1", v.shown(at+".region"))
	}
	if s.Prefix != "" && (!s3Prefix.MatchString(s.Prefix) || len(s.Prefix) > 200 || dots(s.Prefix)) {
		v.wrong(at+".prefix", "%s cannot stand before names; expected at most 200 letters, digits, _, . or -, in "+
			"parts with / between them", v.shown(at+".prefix"))
	}
	switch {
	case s.AccessKey == "" && s.CredentialsFile == "":
		v.wrong(at, "the bucket has no credentials; expected access_key and secret_key, or credentials_file")
	case s.AccessKey != "" && s.CredentialsFile != "":
		v.wrong(at+".credentials_file", "access_key is set, too; expected one of them")
	case s.AccessKey != "" && s.SecretKey == "":
		v.wrong(at+".access_key", "a key without its secret signs nothing; expected secret_key, too")
	case s.AccessKey != "" && !s3Access.MatchString(s.AccessKey.Reveal()):
		v.wrong(at+".access_key", "this is not an access key; expected letters and digits only")
	case s.AccessKey == "" && (s.SecretKey != "" || s.SessionToken != ""):
		v.wrong(at+".secret_key", "it belongs to an access key; expected access_key, too")
	case s.Profile != "" && s.CredentialsFile == "":
		v.wrong(at+".profile", "a profile is a section of a file; expected credentials_file, too")
	case strings.HasPrefix(s.CredentialsFile, "~/"):
		v.wrong(at+".credentials_file", "~ is not expanded here; expected the whole path, or ${HOME}%s",
			s.CredentialsFile[1:])
	}
}

// dots says that a part of a path is . or .., which servers resolve, each its own way.
func dots(path string) bool {
	parts := strings.Split(path, "/")
	return slices.Contains(parts, ".") || slices.Contains(parts, "..")
}
