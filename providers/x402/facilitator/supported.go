package facilitator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxKinds and maxSigners bound the stored part of a list of support.
	maxKinds    = 256
	maxSigners  = 256
	maxName     = 128
	maxFeePayer = 44
)

// support is a facilitator's list of support.
type support struct {
	networks  map[string]string   // CAIP-2 → the fee payer there, empty: need not be named
	signers   map[string][]string // by network, or solana:* for all of a kind
	simulated bool
}

// readSupported reads an answer to supported: the kinds of version 2 and scheme exact.
func readSupported(status int, body []byte) (*support, error) {
	if len(body) > maxAnswer {
		return nil, said(status, errAnswer)
	}
	var answer struct {
		Kinds []struct {
			X402Version int
			Scheme      string
			Network     string
			Extra       struct{ FeePayer string }
		}
		Signers    map[string][]string
		Extensions json.RawMessage
		Simulated  bool
	}
	if err := json.Unmarshal(body, &answer); err != nil || status < 200 || status > 299 {
		return nil, said(status, errAnswer)
	}
	if len(answer.Kinds) > maxKinds || len(answer.Signers) > maxSigners {
		return nil, fmt.Errorf("it supports more than %d kinds of payments", maxKinds)
	}
	s := &support{networks: map[string]string{}, signers: map[string][]string{},
		simulated: answer.Simulated || saysSimulated(answer.Extensions)}
	for _, kind := range answer.Kinds {
		if kind.X402Version != 2 || kind.Scheme != "exact" || len(kind.Network) > maxName ||
			len(kind.Extra.FeePayer) > maxFeePayer {
			continue
		}
		if _, ok := s.networks[kind.Network]; !ok {
			s.networks[kind.Network] = kind.Extra.FeePayer
		}
	}
	for network, list := range answer.Signers {
		s.signers[network] = list[:min(len(list), maxSigners)]
	}
	return s, nil
}

// saysSimulated reads extensions, which are a list of names or an object.
func saysSimulated(extensions json.RawMessage) bool {
	var names []string
	if json.Unmarshal(extensions, &names) == nil {
		return slices.Contains(names, "simulated")
	}
	var members struct{ Simulated bool }
	return json.Unmarshal(extensions, &members) == nil && members.Simulated
}

// takes says that fees are paid with an account: with the one that is named now, or
// with one that still signs.
func (s *support) takes(network, account string) bool {
	payer, ok := s.networks[network]
	if !ok || account == "" {
		return false
	}
	kind, _, _ := strings.Cut(network, ":")
	return account == payer || slices.Contains(s.signers[network], account) ||
		slices.Contains(s.signers[kind+":*"], account)
}
