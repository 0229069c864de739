package enclave

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// devices are the graphics processors of a domain.
type devices struct {
	root, between cert
	each          []cert
}

func newDevices(n int, now time.Time) (*devices, error) {
	d := &devices{}
	var err error
	if d.root, err = issue(nil, subject("NVIDIA Device Identity CA"), true, now, elliptic.P384()); err != nil {
		return nil, err
	}
	if d.between, err = issue(&d.root, subject("NVIDIA GH100 Identity"), true, now, elliptic.P384()); err != nil {
		return nil, err
	}
	for i := range n {
		c, err := issue(&d.between, subject(fmt.Sprintf("GH100 %d", i)), false, now, elliptic.P384())
		if err != nil {
			return nil, err
		}
		d.each = append(d.each, c)
	}
	return d, nil
}

// payload is the evidence of all of them for a nonce. bad: it is not signed.
func (d *devices) payload(nonce [32]byte, bad bool) (string, error) {
	type evidence struct {
		Certificate string `json:"certificate"`
		Evidence    string `json:"evidence"`
		Arch        string `json:"arch"`
	}
	p := struct {
		Nonce    string     `json:"nonce"`
		Arch     string     `json:"arch"`
		Evidence []evidence `json:"evidence_list"`
	}{hex.EncodeToString(nonce[:]), "HOPPER", nil}
	for i := range d.each {
		raw, err := measured(&d.each[i], nonce)
		if err != nil {
			return "", err
		}
		if bad {
			raw[len(raw)-1] ^= 1
		}
		chain := pems(d.each[i].Certificate, d.between.Certificate, d.root.Certificate)
		p.Evidence = append(p.Evidence, evidence{base64.StdEncoding.EncodeToString(chain),
			base64.StdEncoding.EncodeToString(raw), "HOPPER"})
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// measured is GET_MEASUREMENTS of SPDM 1.1 with a device's answer.
func measured(c *cert, nonce [32]byte) ([]byte, error) {
	raw := append([]byte{0x11, 0xe0, 0x01, 0xff}, nonce[:]...)
	raw = append(raw, 0)
	record := sized(200, "measurements")
	raw = append(raw, 0x11, 0x60, 0, 0, 1, byte(len(record)), 0, 0)
	raw = append(raw, record...)
	var own [32]byte
	rand.Read(own[:])
	raw = append(raw, own[:]...)
	raw = append(raw, 2, 0, 0xab, 0xcd)
	sum := sha512.Sum384(raw)
	signature, err := pair(c.key, sum[:])
	return append(raw, signature...), err
}

// issuer is the signer of the tokens of NVIDIA's service, at any address.
const issuer = "https://nras.attestation.nvidia.com"

// judge is NVIDIA's service that judges evidence: it answers with tokens that it
// signed.
type judge struct {
	key *ecdsa.PrivateKey
	id  string
}

func newJudge() (*judge, error) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	return &judge{key: key, id: "test-only-1"}, err
}

// keys is its set of keys, as /.well-known/jwks.json.
func (j *judge) keys() object {
	point, err := j.key.PublicKey.Bytes()
	if err != nil {
		panic("enclave: " + err.Error())
	}
	at := func(from, to int) string { return base64.RawURLEncoding.EncodeToString(point[from:to]) }
	return object{"keys": []object{{"kty": "EC", "crv": "P-384", "use": "sig", "alg": "ES384", "kid": j.id,
		"x": at(1, 49), "y": at(49, 97)}}}
}

// token is a signed set of claims.
func (j *judge) token(claims object) (string, error) {
	part := func(v any) (string, error) {
		raw, err := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw), err
	}
	head, err := part(object{"alg": "ES384", "typ": "JWT", "kid": j.id})
	if err != nil {
		return "", err
	}
	body, err := part(claims)
	if err != nil {
		return "", err
	}
	sum := sha512.Sum384([]byte(head + "." + body))
	signature, err := pair(j.key, sum[:])
	return head + "." + body + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// verdict is its answer to evidence: an overall token, and one a device. lie: fail (a
// device did not pass), nonce (of another one), forged (the signature is invalid), expired.
func (j *judge) verdict(payload []byte, lie string, now time.Time) (any, error) {
	var asked struct {
		Nonce    string `json:"nonce"`
		Evidence []struct {
			Certificate string `json:"certificate"`
			Evidence    string `json:"evidence"`
		} `json:"evidence_list"`
	}
	if err := json.Unmarshal(payload, &asked); err != nil || len(asked.Evidence) == 0 {
		return nil, fmt.Errorf("malformed evidence")
	}
	nonce, expires := asked.Nonce, now.Add(time.Hour)
	if lie == "nonce" {
		nonce = strings.Repeat("0", 64)
	}
	if lie == "expired" {
		expires = now.Add(-time.Hour)
	}
	base := func() object {
		return object{"iss": issuer, "iat": now.Add(-time.Second).Unix(), "nbf": now.Add(-time.Second).Unix(),
			"exp": expires.Unix(), "eat_nonce": nonce}
	}
	each, digests := object{}, object{}
	for i := range asked.Evidence {
		claims := base()
		claims["measres"], claims["dbgstat"], claims["secboot"] = "success", "disabled", true
		if lie == "fail" {
			claims["measres"] = "fail"
		}
		token, err := j.token(claims)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("GPU-%d", i)
		sum := sha256.Sum256([]byte(token))
		each[name], digests[name] = token, []any{"DIGEST", []string{"SHA-256", hex.EncodeToString(sum[:])}}
	}
	claims := base()
	claims["x-nvidia-overall-att-result"], claims["submods"] = lie != "fail", digests
	overall, err := j.token(claims)
	if err != nil {
		return nil, err
	}
	if lie == "forged" {
		overall = overall[:len(overall)-8] + "AAAAAAAA"
	}
	return []any{[]string{"JWT", overall}, each}, nil
}

// certificateOf is the root of the devices, for clients that pin it.
func (d *devices) certificateOf() *x509.Certificate { return d.root.Certificate }
