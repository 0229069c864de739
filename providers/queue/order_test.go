package queue

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"farebox/config"
)

// The options of a target name every field of an order, and no other.
func TestOptionsNameTheFieldsOfOrders(t *testing.T) {
	t.Parallel()
	var names []string
	kind := reflect.TypeFor[Order]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	want := append([]string{"kind"}, config.OrderFields...)
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("orders have the fields %v, options name %v", names, want)
	}
}

// A field that a client omitted is not sent; false and 0 are, where the order has a pointer to them.
func TestOmittedFieldsAreNotSent(t *testing.T) {
	t.Parallel()
	no, zero := false, 0.0
	o := Order{Kind: "video", Seconds: 5, Audio: &no, Speed: &zero, Images: []string{}, Videos: []string{"https://a/v"},
		Elements: []Element{{Front: "https://a/f"}}, Keyframes: []Frame{{Image: "https://a/k", Index: 2}}}
	want := map[string]any{"seconds": "5", "audio": false, "speed": 0.0, "videos": []string{"https://a/v"},
		"elements":  []any{map[string]any{"frontal_image_url": "https://a/f"}},
		"keyframes": []any{map[string]any{"image_url": "https://a/k", "frame_index": 2}}}
	if got := fields(&o); !reflect.DeepEqual(got, want) {
		t.Errorf("fields are %v, expected %v", got, want)
	}
}
