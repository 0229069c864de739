package credential

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"farebox/config"
)

// defaultProfile is the default section of a credentials file.
const defaultProfile = "default"

func readProfile(path, profile string) (awsKeys, error) {
	data, _, err := readSecret(path)
	if err != nil {
		return awsKeys{}, err
	}
	k, err := parseProfile(data, profile)
	if err != nil {
		return awsKeys{}, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return k, nil
}

// parseProfile reads a shared credentials file of AWS: sections of name = value.
// Its errors name members and no values.
func parseProfile(data []byte, profile string) (awsKeys, error) {
	if profile == "" {
		profile = defaultProfile
	}
	var k awsKeys
	in, found := false, false
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if inner, ok := strings.CutPrefix(text, "["); ok {
			name, _, closed := strings.Cut(inner, "]")
			in = closed && strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "profile ")) == profile
			found = found || in
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		if !in || !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			k.access = value
		case "aws_secret_access_key":
			k.secret = value
		case "aws_session_token", "aws_security_token":
			k.session = value
		}
	}
	switch {
	case !found:
		return awsKeys{}, fmt.Errorf("it has no section [%s]", profile)
	case k.access == "":
		return awsKeys{}, fmt.Errorf("[%s] has no aws_access_key_id", profile)
	case k.secret == "":
		return awsKeys{}, fmt.Errorf("[%s] has no aws_secret_access_key", profile)
	case !plainToken(k.access) || strings.ContainsAny(k.access, "/,="):
		return awsKeys{}, errors.New("aws_access_key_id is invalid: expected letters and digits")
	case k.session != "" && !plainToken(k.session):
		return awsKeys{}, errors.New("aws_session_token has characters that no header can carry")
	}
	return k, nil
}

// Profile reads a section of a shared credentials file of AWS.
func Profile(path, profile string) (access, secret, session config.Secret, err error) {
	k, err := readProfile(path, profile)
	return config.Secret(k.access), config.Secret(k.secret), config.Secret(k.session), err
}
