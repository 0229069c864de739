package credential

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/proxy"
)

// Credential is a proxy.Credential with its background work.
type Credential interface {
	proxy.Credential
	// Close ends the background work and waits for it. The last token stays good for
	// requests that are under way.
	Close()
}

// Aged is a Credential that knows when its token was obtained, and when it expires; zero:
// unknown.
type Aged interface {
	Age() (got, expires time.Time)
}

// Kind is the kind of credential that a Spec asks for.
type Kind uint8

const (
	// None: a fixed header, or no header, identifies us.
	None Kind = iota
	// TokenFile is a token that another program keeps fresh in a file.
	TokenFile
	// ServiceAccount is a token that is got with the key of a service account.
	ServiceAccount
	// Signature is AWS Signature Version 4.
	Signature
)

// String is the name in lists.
func (k Kind) String() string {
	return [...]string{"key", "token_file", "service_account", "signature"}[k]
}

// Spec is the config of one credential. Equal ones are the same credential: a reload keeps
// its token.
type Spec struct {
	Kind     Kind
	Upstream string // the operator's label, for logs
	// Header carries a token, behind Prefix.
	Header, Prefix string
	// File is that of the token, of the service account's key or of AWS keys.
	File string
	// TokenURL is the operator's token endpoint; empty: the key file's, if its host is
	// known. CAFile is trusted there too.
	TokenURL, CAFile string

	AccessKey, SecretKey, SessionToken config.Secret
	Profile                            string // in File
	Region, Service                    string
}

// Of is the credential of an upstream.
func Of(u *config.Upstream) Spec {
	s := Spec{Upstream: u.Name, Header: "Authorization", Prefix: "Bearer "}
	switch {
	case u.TokenFile != "":
		s.Kind, s.File = TokenFile, u.TokenFile
		s.Header, s.Prefix = u.TokenHeader()
	case u.Google.KeyFile != "":
		s.Kind, s.File = ServiceAccount, u.Google.KeyFile
		s.TokenURL, s.CAFile = u.Google.TokenURL, u.CAFile
	case u.AWS.Signs():
		s.Kind, s.File, s.Profile = Signature, u.AWS.CredentialsFile, u.AWS.Profile
		s.AccessKey, s.SecretKey, s.SessionToken = u.AWS.AccessKey, u.AWS.SecretKey, u.AWS.SessionToken
		s.Region, s.Service = u.AWS.Region, u.AWS.Service()
	default:
		return Spec{}
	}
	return s
}

// Check reports faults of a credential's files, without a request to anybody.
func Check(s Spec) error {
	var err error
	switch s.Kind {
	case TokenFile:
		_, err = newTokenFile(s.File).readToken()
	case ServiceAccount:
		_, err = readKeyFile(s.File, s.TokenURL)
	case Signature:
		if s.File != "" {
			_, err = readProfile(s.File, s.Profile)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot use the credential of upstream %s: %w", s.Upstream, err)
	}
	return nil
}

// Open starts a credential, whose files must be good now. nil: the Spec needs no background
// work.
func Open(s Spec, log zerolog.Logger) (Credential, error) {
	if err := Check(s); err != nil {
		return nil, err
	}
	log = log.With().Str("upstream", s.Upstream).Logger()
	switch s.Kind {
	case TokenFile:
		return newTokenCache(s, newTokenFile(s.File), log), nil
	case ServiceAccount:
		source, err := newAccount(s)
		if err != nil {
			return nil, fmt.Errorf("cannot use the credential of upstream %s: %w", s.Upstream, err)
		}
		return newTokenCache(s, source, log), nil
	case Signature:
		return newSigner(s, log), nil
	}
	return nil, nil
}
