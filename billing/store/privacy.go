package store

import (
	"fmt"
	"strings"
)

// ModelPrivacy is which models a key may use (addendum 16.1). The numbers are
// stored.
type ModelPrivacy uint8

// The privacy that a key asks of models.
const (
	AnyModel    ModelPrivacy = 1
	PrivateText ModelPrivacy = 2 // text and embedding models must be private, TEE or E2EE
	PrivateOnly ModelPrivacy = 3 // all models
)

var privacyNames = [...]string{AnyModel: "ALL", PrivateText: "PRIVATE_TEXT", PrivateOnly: "PRIVATE_ONLY"}

// ParseModelPrivacy reads ALL, PRIVATE_TEXT or PRIVATE_ONLY in any case; empty is ALL.
func ParseModelPrivacy(s string) (ModelPrivacy, error) {
	if s == "" {
		return AnyModel, nil
	}
	for p, name := range privacyNames {
		if name != "" && strings.EqualFold(s, name) {
			return ModelPrivacy(p), nil
		}
	}
	return 0, fmt.Errorf("cannot use the model privacy %q: expected ALL, PRIVATE_TEXT or PRIVATE_ONLY", s)
}

// String names the privacy; that of keys made before there was one is ALL.
func (p ModelPrivacy) String() string {
	if p == 0 || int(p) >= len(privacyNames) {
		return privacyNames[AnyModel]
	}
	return privacyNames[p]
}

// MarshalText writes the privacy's name.
func (p ModelPrivacy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the privacy's name.
func (p *ModelPrivacy) UnmarshalText(b []byte) (err error) {
	*p, err = ParseModelPrivacy(string(b))
	return err
}
