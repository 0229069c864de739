package gpu

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// "The host showed us the evidence of its devices, and the client that of others":
// payloads with two readings are rejected.
func TestPayloadsWithTwoReadings(t *testing.T) {
	t.Parallel()
	const good = `{"nonce":"ab","arch":"HOPPER","evidence_list":[{"certificate":"AA==","evidence":"EQ==","arch":"HOPPER"}],"x":{}}`
	p, err := Read([]byte(good))
	if err != nil || p.Nonce != "ab" || len(p.Evidence) != 1 || p.Evidence[0] != (Evidence{"AA==", "EQ==", "HOPPER"}) {
		t.Fatal(p, err)
	}
	if p, err := Read([]byte(strings.ReplaceAll(good, "AA==", `A\/8\u003d`))); err != nil || p.Evidence[0].Certificate != "A/8=" {
		t.Error(p, err)
	}
	one := `{"certificate":"AA==","evidence":"EQ=="}`
	for name, text := range map[string]string{
		"two nonces":                    `{"nonce":"ab","nonce":"cd","evidence_list":[` + one + `]}`,
		"a nonce in other letters":      `{"nonce":"ab","Nonce":"cd","evidence_list":[` + one + `]}`,
		"only in other letters":         `{"NONCE":"ab","evidence_list":[` + one + `]}`,
		"a nonce with escapes":          `{"nonc\u0065":"ab","evidence_list":[` + one + `]}`,
		"two lists":                     `{"nonce":"ab","evidence_list":[` + one + `],"evidence_list":[]}`,
		"a list in other letters":       `{"nonce":"ab","evidence_list":[` + one + `],"EVIDENCE_LIST":[` + one + `]}`,
		"two certificates":              `{"nonce":"ab","evidence_list":[{"certificate":"AA==","certificate":"BB==","evidence":"EQ=="}]}`,
		"evidence in other letters":     `{"nonce":"ab","evidence_list":[{"certificate":"AA==","evidence":"EQ==","Evidence":"AA=="}]}`,
		"no list":                       `{"nonce":"ab"}`,
		"an empty list":                 `{"nonce":"ab","evidence_list":[]}`,
		"an invalid list":               `{"nonce":"ab","evidence_list":{"certificate":"AA==","evidence":"EQ=="}}`,
		"devices that are none":         `{"nonce":"ab","evidence_list":[null]}`,
		"an invalid entry":              `{"nonce":"ab","evidence_list":[null,` + one + `]}`,
		"one that is a number":          `{"nonce":"ab","evidence_list":[` + one + `,1]}`,
		"devices within devices":        `{"nonce":"ab","evidence_list":[[` + one + `]]}`,
		"no certificate":                `{"nonce":"ab","evidence_list":[{"evidence":"EQ=="}]}`,
		"an invalid certificate":        `{"nonce":"ab","evidence_list":[{"certificate":["AA=="],"evidence":"EQ=="}]}`,
		"an invalid nonce":              `{"nonce":1,"evidence_list":[` + one + `]}`,
		"too many devices":              `{"nonce":"ab","evidence_list":[` + strings.Repeat(one+",", maxDevices) + one + `]}`,
		"something behind it":           `{"nonce":"ab","evidence_list":[` + one + `]} {}`,
		"an array":                      `[` + one + `]`,
		"nothing":                       ``,
		"a wrong escape":                `{"nonce":"a\x","evidence_list":[` + one + `]}`,
		"a wrong escape that is unread": `{"x":"\x","nonce":"ab","evidence_list":[` + one + `]}`,
		"invalid UTF-8":                 "{\"x\":\"\xff\",\"nonce\":\"ab\",\"evidence_list\":[" + one + `]}`,
		"very deep":                     `{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,"nonce":"ab","evidence_list":[` + one + `]}`,
	} {
		if p, err := Read([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// FuzzPayload: Go's decoder reads an accepted payload alike.
func FuzzPayload(f *testing.F) {
	for _, s := range []string{`{"nonce":"ab","evidence_list":[{"certificate":"AA==","evidence":"EQ==","arch":"HOPPER"}]}`,
		`{"nonce":"\u0061","arch":null,"evidence_list":[{"certificate":"","evidence":"\/","x":[]}],"y":1e9}`, `{"evidence_list":[{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(text)
		if err != nil {
			return
		}
		var other Payload
		if err := json.Unmarshal(text, &other); err != nil || !reflect.DeepEqual(p, &other) {
			t.Errorf("%+v, and by another %+v, %v", p, other, err)
		}
	})
}
