package responses

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// keeperFunc is a Keeper.
type keeperFunc func(id, item []byte)

func (k keeperFunc) KeepItem(id, item []byte) { k(id, item) }

// An item is kept, as the client gets it, before the event of its end. Items without an
// end are not kept.
func TestItemsAreKeptBeforeTheClientHasThem(t *testing.T) {
	t.Parallel()
	var kept []string
	keeper := keeperFunc(func(_, item []byte) { kept = append(kept, string(item)) })
	f := formOf(t, sdk, request)
	f.KeepItems(keeper)
	s := dialect.OpenForm(chatOf(t, f))
	defer s.Release()
	if s.Pass([]byte(delta(`"content":"Hello"`))); len(kept) != 0 {
		t.Errorf("kept before its end is %q", kept)
	}
	out := string(s.Pass([]byte(finish("stop") + done)))
	if len(kept) != 1 || !strings.Contains(out, `"item":`+kept[0]) || !strings.Contains(kept[0], "Hello") {
		t.Errorf("kept is %q, sent is %s", kept, out)
	}
	kept = nil
	failing := dialect.OpenForm(chatOf(t, f))
	defer failing.Release()
	failing.Pass([]byte(delta(`"content":"Hello"`)))
	if failing.Fail(&dialect.Fault{Code: "x", Kind: "y", Message: "z"}); len(kept) != 0 {
		t.Errorf("kept of an answer that failed is %q", kept)
	}
	calls := strings.Repeat(`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},`, 2*maxKeptItems)
	completion := `{"choices":[{"message":{"tool_calls":[` + strings.TrimSuffix(calls, ",") + `]}}]}`
	f.kept = 0
	if _, err := wholeAnswer(f, completion, chatOf(t, f)); err != nil || len(kept) != maxKeptItems {
		t.Errorf("%d items of a whole answer are kept (%v)", len(kept), err)
	}
	for body, want := range map[string]bool{request: true, `{"model":"m","input":"x","store":true}`: true,
		`{"model":"m","input":"x","store":null}`: true, `{"model":"m","input":"x","store":false}`: false} {
		if got := formOf(t, sdk, body).Stores(); got != want {
			t.Errorf("%s may be kept: %v", body, got)
		}
	}
}

// Items come into the places of references; the places of others stay.
func TestReferencesAreResolved(t *testing.T) {
	t.Parallel()
	const input = `{ "model":"m","input":[ {"type":"item_reference","id":"msg_1"} ,{"id":"rs_1"},"x",{"role":"user","content":"Hi"},` +
		`{"type":"item_reference","id":"msg_1"},{"type":"item_reference"},{"type":"message","id":"msg_2","content":"Hm"}] }`
	f := formOf(t, sdk, input)
	refs := References(f.body, f.doc, 100)
	var got []string
	for _, r := range refs {
		got = append(got, fmt.Sprintf("%s %s %v", f.doc.Path(r.Field), r.ID, r.Thought()))
	}
	if want := []string{"input.0 msg_1 false", "input.1 rs_1 true", "input.4  false"}; !slices.Equal(got, want) {
		t.Fatalf("references are %q, want %q", got, want)
	}
	body := string(Resolve(f.body, f.doc, refs, [][]byte{[]byte(`{"type":"message"}`), nil, nil}))
	want := strings.Replace(input, `{"id":"rs_1"}`, string(noItem), 1)
	want = strings.Replace(want, `{"type":"item_reference","id":"msg_1"}`, `{"type":"message"}`, 1)
	want = strings.Replace(want, `{"type":"item_reference","id":"msg_1"}`, string(noItem), 1)
	if body != want {
		t.Errorf("resolved is\n%s, want\n%s", body, want)
	}
	if n := len(References(f.body, f.doc, 2)); n != 2 {
		t.Errorf("at most 2 references are %d", n)
	}
}
