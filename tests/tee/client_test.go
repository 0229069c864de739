package tee

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// client is who chats with an enclave: it has a key for this one session.
type client struct {
	t     testing.TB
	own   *secp256k1.PrivateKey
	model *secp256k1.PublicKey
	key   string // the model's, as it was attested
}

// meets makes a client for an attested key.
func meets(t testing.TB, key string) *client {
	t.Helper()
	own, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	model, err := secp256k1.ParsePubKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, own, model, key}
}

func box(own *secp256k1.PrivateKey, other *secp256k1.PublicKey) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secp256k1.GenerateSharedSecret(own, other), nil, "ecdsa_encryption", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seals a text for the enclave.
func (c *client) seals(text string) string {
	c.t.Helper()
	fresh, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := box(fresh, c.model)
	if err != nil {
		c.t.Fatal(err)
	}
	nonce := make([]byte, 12)
	rand.Read(nonce)
	out := append(fresh.PubKey().SerializeUncompressed(), nonce...)
	return hex.EncodeToString(b.Seal(out, nonce, []byte(text), nil))
}

// opens a delta.
func (c *client) opens(text string) string {
	c.t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) < 93 {
		c.t.Fatalf("a delta is not a sealed text: %.80q", text)
	}
	from, err := secp256k1.ParsePubKey(raw[:65])
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := box(c.own, from)
	if err != nil {
		c.t.Fatal(err)
	}
	plain, err := b.Open(nil, raw[65:77], raw[77:], nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(plain)
}

// turn is one of a chat: role and text; those of users and systems are sealed.
type turn [2]string

// body is a sealed chat, with more members.
func (c *client) body(turns []turn, more string) string {
	c.t.Helper()
	var list []map[string]string
	for _, t := range turns {
		text := t[1]
		if t[0] == "user" || t[0] == "system" {
			text = c.seals(text)
		}
		list = append(list, map[string]string{"role": t[0], "content": text})
	}
	messages, err := json.Marshal(list)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf(`{"model":%q,"stream":true,"messages":%s%s}`, model, messages, more)
}

// headers are those of a sealed chat, under a word of the brand.
func (c *client) headers(word string) []string {
	return []string{"X-" + word + "-TEE-Client-Pub-Key", hex.EncodeToString(c.own.PubKey().SerializeUncompressed()),
		"X-" + word + "-TEE-Model-Pub-Key", c.key, "X-" + word + "-TEE-Signing-Algo", "ecdsa"}
}

// posts a body with those headers, and others, and gives every byte of the answer, with
// its head.
func (c *client) posts(s *shop, key, body string, others ...string) (*http.Response, []byte) {
	c.t.Helper()
	status, header, answer, err := rig.Try(rig.Client, s.URL+"/chat/completions", key, body,
		append(c.headers("Svc"), others...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: header}, []byte(answer)
}

// chats posts a chat of these turns.
func (c *client) chats(s *shop, key string, turns []turn, more string) (*http.Response, []byte) {
	c.t.Helper()
	return c.posts(s, key, c.body(turns, more))
}

// reads returns a stream's text, opened, and its id and usage.
func (c *client) reads(stream []byte) (text, id string, usage gjson.Result) {
	c.t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		event := gjson.Parse(data)
		id = event.Get("id").Str
		if u := event.Get("usage"); u.IsObject() {
			usage = u
		}
		if delta := event.Get("choices.0.delta.content").Str; delta != "" {
			text += c.opens(delta)
		}
	}
	return text, id, usage
}
