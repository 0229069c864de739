package rpc

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

// Nodes run the request that farebox priced, whatever parser they have: the struct
// decoder of geth (last member wins, in any case of letters), the object of JavaScript
// (last wins, exact), and one where the first wins.
func TestNodesRunThePricedCalls(t *testing.T) {
	n := envelopes(t)
	g := newGenerator(2)
	var r Request
	taken := 0
	for range n {
		body := []byte(g.envelope(g.IntN(3) > 0))
		if r.Scan(body) != nil {
			continue
		}
		taken++
		sent := r.sentBy(new(attempt))
		for name, read := range map[string]func([]byte) ([]string, error){"geth": likeGeth,
			"javascript": likeJavaScript, "first": likeFirst} {
			methods, err := read(sent)
			if err != nil || len(methods) != len(r.Calls) {
				t.Fatalf("%s reads %q as %v, %v", name, sent, methods, err)
			}
			for i, m := range methods {
				if m != string(r.MethodName(i)) {
					t.Fatalf("%s runs %s where %s was priced: call %d of %q, sent as %q", name, m, r.MethodName(i), i,
						body, sent)
				}
			}
		}
	}
	if taken < n/10 {
		t.Errorf("only %d of %d requests were taken", taken, n)
	}
	t.Logf("%d requests, %d taken, 0 differ", n, taken)
}

// each calls do for the objects of a body.
func each(body []byte, do func(raw []byte) error) error {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		for _, raw := range list {
			if err := do(raw); err != nil {
				return err
			}
		}
		return nil
	}
	return do(body)
}

func likeGeth(body []byte) (methods []string, err error) {
	err = each(body, func(raw []byte) error {
		var c struct {
			Method string `json:"method"`
		}
		err := json.Unmarshal(raw, &c)
		methods = append(methods, c.Method)
		return err
	})
	return methods, err
}

func likeJavaScript(body []byte) (methods []string, err error) {
	err = each(body, func(raw []byte) error {
		var c map[string]any
		err := json.Unmarshal(raw, &c)
		m, _ := c["method"].(string)
		methods = append(methods, m)
		return err
	})
	return methods, err
}

func likeFirst(body []byte) (methods []string, err error) {
	err = each(body, func(raw []byte) error {
		methods = append(methods, gjson.GetBytes(raw, "method").String())
		return nil
	})
	return methods, err
}
