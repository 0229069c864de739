package gpu

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// NRAS is NVIDIA's service that judges evidence, and the issuer of its tokens.
const NRAS = "https://nras.attestation.nvidia.com"

const (
	maxAnswer = 1 << 20
	maxKeys   = 64
	// keysFor is how long its keys are kept; they live a day or two.
	keysFor = 12 * time.Hour
	// keysApart is how often it is asked for them again when a token names another.
	keysApart = 30 * time.Second
	// awayFor is how long a failed request stops further ones of those who waited for it.
	awayFor = 5 * time.Second
	// skew allows for clocks that differ.
	skew = time.Minute
)

// Remote is that service. Safe for concurrent use.
type Remote struct {
	Base   string // NRAS, or where it is
	Issuer string // of its tokens; NRAS
	HTTP   *http.Client
	Now    func() time.Time

	mu    sync.Mutex // one question for keys at a time
	keys  map[string]*ecdsa.PublicKey
	asked time.Time
	away  time.Time // when it did not answer last
}

// ErrAway is for a service that does not answer, which says nothing about the devices.
var ErrAway = errors.New("NVIDIA's service does not answer")

var (
	errToken = errors.New("the answer of NVIDIA's service is not signed by it, or not for this question")
	errFails = errors.New("NVIDIA's service does not approve of the devices")
)

// Judge asks whether the devices of a payload run releases of NVIDIA's. The answer
// must be signed, for this nonce, and about as many devices.
func (r *Remote) Judge(ctx context.Context, payload string, nonce [32]byte, devices int) error {
	raw, err := r.request(ctx, http.MethodPost, "/v3/attest/gpu", []byte(payload))
	if err != nil {
		return err
	}
	var parts [2]json.RawMessage
	var overall [2]string
	var each map[string]string
	if json.Unmarshal(raw, &parts) != nil || json.Unmarshal(parts[0], &overall) != nil || overall[0] != "JWT" ||
		json.Unmarshal(parts[1], &each) != nil || len(each) != devices {
		return errToken
	}
	want := hex.EncodeToString(nonce[:])
	var all overallClaims
	if err := r.read(ctx, overall[1], want, &all); err != nil {
		return err
	}
	if len(all.Submods) != devices {
		return errToken
	}
	for name, token := range each {
		sum := sha256.Sum256([]byte(token))
		if all.digest(name) != hex.EncodeToString(sum[:]) {
			return errToken
		}
		var one deviceClaims
		if err := r.read(ctx, token, want, &one); err != nil {
			return err
		}
		if one.Measured != "success" || one.Debug != "disabled" || one.SecureBoot == nil || !*one.SecureBoot {
			return errFails
		}
	}
	if all.Result == nil || !*all.Result {
		return errFails
	}
	return nil
}

// overallClaims are those of the token about all devices.
type overallClaims struct {
	jwt.RegisteredClaims
	Nonce   string                     `json:"eat_nonce"`
	Result  *bool                      `json:"x-nvidia-overall-att-result"`
	Submods map[string]json.RawMessage `json:"submods"`
}

// digest is that of the token of a device; empty if it is not a SHA-256.
func (c *overallClaims) digest(name string) string {
	var pair [2]json.RawMessage
	var kind string
	var of [2]string
	if json.Unmarshal(c.Submods[name], &pair) != nil || json.Unmarshal(pair[0], &kind) != nil || kind != "DIGEST" ||
		json.Unmarshal(pair[1], &of) != nil || of[0] != "SHA-256" && of[0] != "SHA256" {
		return ""
	}
	return strings.ToLower(of[1])
}

// deviceClaims are those of the token about one device.
type deviceClaims struct {
	jwt.RegisteredClaims
	Nonce      string `json:"eat_nonce"`
	Measured   string `json:"measres"`
	Debug      string `json:"dbgstat"`
	SecureBoot *bool  `json:"secboot"`
}

func (c *overallClaims) nonce() string { return c.Nonce }
func (c *deviceClaims) nonce() string  { return c.Nonce }

// read checks a token: signed by ES384 with a key of the service, in effect, of the
// service, for the nonce.
func (r *Remote) read(ctx context.Context, token, nonce string, into interface {
	jwt.Claims
	nonce() string
}) error {
	now := r.Now()
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodES384.Alg()}), jwt.WithIssuer(r.Issuer),
		jwt.WithExpirationRequired(), jwt.WithLeeway(skew), jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	_, err := parser.ParseWithClaims(token, into, func(t *jwt.Token) (any, error) {
		id, ok := t.Header["kid"].(string)
		if !ok {
			return nil, errToken
		}
		return r.key(ctx, id)
	})
	switch {
	case errors.Is(err, ErrAway):
		return ErrAway
	case err != nil, into.nonce() != nonce:
		return errToken
	}
	return nil
}

// key is one of the service. It is asked for its keys when they are old, or when one is
// named that is not among them, which forged tokens do as well: so not often.
func (r *Remote) key(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.Now().Sub(r.asked)
	if k := r.keys[id]; k != nil && age < keysFor {
		return k, nil
	}
	if r.keys != nil && age < keysApart {
		return nil, errToken
	}
	if now := r.Now(); !r.away.IsZero() && now.Sub(r.away) < awayFor {
		return nil, ErrAway
	}
	raw, err := r.request(ctx, http.MethodGet, "/.well-known/jwks.json", nil)
	if err != nil {
		r.away = r.Now()
		return nil, err
	}
	keys, err := readKeys(raw)
	if err != nil {
		return nil, err
	}
	r.keys, r.asked = keys, r.Now()
	if k := keys[id]; k != nil {
		return k, nil
	}
	return nil, errToken
}

// readKeys reads a set of keys, and those of it that are of P-384.
func readKeys(raw []byte) (map[string]*ecdsa.PublicKey, error) {
	var set struct {
		Keys []struct{ Kty, Crv, Kid, X, Y string } `json:"keys"`
	}
	if json.Unmarshal(raw, &set) != nil || len(set.Keys) > maxKeys {
		return nil, errToken
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, k := range set.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		if k.Kty != "EC" || k.Crv != "P-384" || errX != nil || errY != nil || len(x) != 48 || len(y) != 48 {
			continue
		}
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P384(), append(append([]byte{4}, x...), y...))
		if err == nil && keys[k.Kid] == nil {
			keys[k.Kid] = key
		}
	}
	return keys, nil
}

func (r *Remote) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(r.Base, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: its address is invalid", ErrAway)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := r.HTTP.Do(q)
	if err != nil {
		return nil, ErrAway
	}
	defer func() { _ = a.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	switch {
	case err != nil || len(raw) > maxAnswer:
		return nil, ErrAway
	case a.StatusCode >= 500 || a.StatusCode == http.StatusTooManyRequests:
		return nil, ErrAway
	case a.StatusCode != http.StatusOK:
		return nil, errFails
	}
	return raw, nil
}
