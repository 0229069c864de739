package config

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Media is where tracks and videos wait until their customers have fetched them.
type Media struct {
	// Dir holds them; default: media below the ledger's directory, which belongs to one
	// process. Nodes on a shared store need a directory that all of them see, or S3.
	Dir string `yaml:"dir"`
	// S3 keeps them in a bucket in place of Dir.
	S3 *S3 `yaml:"s3"`

	Keep time.Duration `yaml:"keep"` // what nobody fetches; default 24h, 10m to 720h
	// Sweep is how often the store is looked through for what no job has any more, and was
	// not written in the last hour. Default 1h, 1s to 168h.
	Sweep time.Duration `yaml:"sweep"`
	// AccountBytes and TotalBytes are what one account, and all of them, may have in it;
	// beyond them jobs are refused with 429. What jobs make that wait already is kept all the
	// same, as far as all of it fits TotalBytes; else they fail and are refunded. Default 2GB and 50GB, 1MB to 1024GB and to 1024TB.
	AccountBytes Size `yaml:"account_bytes"`
	TotalBytes   Size `yaml:"total_bytes"`
	MaxBytes     Size `yaml:"max_bytes"` // of one result; default 512MB, 1MB to 5GB
	// FreeBytes are left on the disk of Dir: with less nothing is kept. Default 1GB, 0 to 1024GB.
	FreeBytes Size `yaml:"free_bytes"`

	// Links has answers name an address in place of what was made (`url`). Default false.
	Links bool `yaml:"links"`
	// LinkRequests is how often a minute one such address is answered; 429 beyond.
	// Default 60, 1 to 100000.
	LinkRequests int64 `yaml:"link_requests"`
}

// S3 is a bucket of Amazon or of any server that speaks as it does.
type S3 struct {
	Endpoint string `yaml:"endpoint"` // https://host[:port]; http:// for a server that is near
	Bucket   string `yaml:"bucket"`
	Region   string `yaml:"region"` // default us-east-1
	// AccessKey, SecretKey and SessionToken sign requests, as does a profile of
	// CredentialsFile, which is read again when it changes.
	AccessKey       Secret `yaml:"access_key"`
	SecretKey       Secret `yaml:"secret_key"`
	SessionToken    Secret `yaml:"session_token"`
	CredentialsFile string `yaml:"credentials_file"`
	Profile         string `yaml:"profile"` // default: default
	// Prefix stands before the names of all objects: farebox/. Default: none.
	Prefix string `yaml:"prefix"`
	// PathStyle asks for endpoint/bucket/name in place of bucket.endpoint/name. Default true.
	PathStyle *bool `yaml:"path_style"`
	// Redirect sends clients with a link to the bucket, by an address that is signed for
	// a few minutes, in place of passing what is in it through. Default false.
	Redirect bool `yaml:"redirect"`
	// Timeout is how long the server may say nothing. Default 30s, 1s to 10m.
	Timeout time.Duration `yaml:"timeout"`
}

func (s *S3) defaults() {
	path := true
	*s = S3{Region: "us-east-1", PathStyle: &path, Timeout: 30 * time.Second}
}

// DefaultMedia is what holds when nothing is written.
func DefaultMedia() Media {
	return Media{Keep: 24 * time.Hour, Sweep: time.Hour, AccountBytes: 2 << 30, TotalBytes: 50 << 30, MaxBytes: 512 << 20,
		FreeBytes: 1 << 30, LinkRequests: 60}
}

// MediaDir is the directory of what was made, where no bucket has it.
func (c *Config) MediaDir() string {
	if c.Media.Dir != "" {
		return c.Media.Dir
	}
	return filepath.Join(c.LedgerDir(), "media")
}

// MediaApart says that nodes on a shared store keep what they make for themselves, so
// that one cannot hand out what another has made.
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
	v.duration("media.keep", m.Keep, 10*time.Minute, 720*time.Hour)
	v.duration("media.sweep", m.Sweep, time.Second, 168*time.Hour)
	size(v, "media.max_bytes", m.MaxBytes, 1<<20, 5<<30)
	size(v, "media.account_bytes", m.AccountBytes, 1<<20, 1<<40)
	size(v, "media.total_bytes", m.TotalBytes, 1<<20, 1<<50)
	size(v, "media.free_bytes", m.FreeBytes, 0, 1<<40)
	whole(v, "media.link_requests", m.LinkRequests, 1, 100_000)
	if m.Links && v.c.PublicAddress() == "" {
		v.wrong("media.links", "it is not known how clients reach this service; expected public_url with its address, "+
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
	v.s3(m.S3)
}

func (v *validator) s3(s *S3) {
	const at = "media.s3"
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
		v.wrong(at+".endpoint", "credentials stand in the address; expected them in access_key and secret_key")
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
		v.wrong(at, "nobody may write to the bucket; expected access_key and secret_key, or credentials_file")
	case s.AccessKey != "" && s.CredentialsFile != "":
		v.wrong(at+".credentials_file", "access_key is set, too; expected one of them")
	case s.AccessKey != "" && s.SecretKey == "":
		v.wrong(at+".access_key", "a key without its secret signs nothing; expected secret_key, too")
	case s.AccessKey != "" && !s3Access.MatchString(s.AccessKey.Reveal()):
		v.wrong(at+".access_key", "this is no access key; expected its letters and digits alone")
	case s.AccessKey == "" && (s.SecretKey != "" || s.SessionToken != ""):
		v.wrong(at+".secret_key", "it belongs to an access key; expected access_key, too")
	case s.Profile != "" && s.CredentialsFile == "":
		v.wrong(at+".profile", "a profile is a section of a file; expected credentials_file, too")
	case strings.HasPrefix(s.CredentialsFile, "~/"):
		v.wrong(at+".credentials_file", "~ is not expanded here; expected the whole path, or ${HOME}%s",
			s.CredentialsFile[1:])
	}
	v.duration(at+".timeout", s.Timeout, time.Second, 10*time.Minute)
}

// dots says that a part of a path is . or .., which servers resolve, each its own way.
func dots(path string) bool {
	parts := strings.Split(path, "/")
	return slices.Contains(parts, ".") || slices.Contains(parts, "..")
}
