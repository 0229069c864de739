package responses

import (
	"fmt"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// An upstream cannot make the gateway keep more than it may.
func TestAnswersWithoutEndAreEnded(t *testing.T) {
	t.Parallel()
	f := formOf(t, sdk, request)
	s := dialect.OpenForm(chatOf(t, f))
	defer s.Release()
	piece := []byte(delta(`"content":"` + strings.Repeat("x", 60<<10) + `"`))
	for range maxKept/(60<<10) + 2 {
		s.Pass(piece)
	}
	if !s.Ended || len(s.Pass(piece)) > 0 {
		t.Error("the stream goes on")
	}
	s = dialect.OpenForm(chatOf(t, f))
	defer s.Release()
	call := delta(`"tool_calls":[` + strings.TrimSuffix(strings.Repeat(`{"index":%d,"id":"%d","function":{"name":"f"}},`, 20), ",") + `]`)
	for n := 0; n < maxItems+100; n += 20 {
		var args []any
		for k := range 40 {
			args = append(args, n+k/2)
		}
		s.Pass([]byte(fmt.Sprintf(call, args...)))
	}
	if it := s.FormWriter.(*stream); !it.Ended || len(it.items) > maxItems {
		t.Error("the stream goes on")
	}
}
