package openai

import (
	"fmt"
	"strings"
	"testing"
)

// Text that hides around the texts of a stream counts once there is more of it than in
// usual streams; usual amounts do not count.
func TestTextAroundTheTextsIsPaid(t *testing.T) {
	usage := strings.Replace(usageChunk, `"completion_tokens":7,"total_tokens":18`,
		`"completion_tokens":1000,"total_tokens":1011`, 1)
	novel := strings.Repeat("the small river moves past old houses ", 10)
	page := strings.Repeat("what a page says of it ", 200)
	f := func(name string, paid bool, event func(i int) string) {
		t.Helper()
		var b strings.Builder
		b.WriteString(roleChunk)
		for i := range 1000 {
			b.WriteString(event(i))
		}
		sc := streamCase{input: b.String() + finishChunk + usage + done, complete: true}
		got := sc.run(t)
		if got.out != sc.input || got.usage.Estimated != paid {
			t.Errorf("%s: %+v, produced %d", name, got.usage, got.produced)
		}
	}
	f("keep-alives", false, func(int) string { return ": OPENROUTER PROCESSING\n\n" + chunk("the") })
	f("ids of each event", false, func(i int) string {
		return fmt.Sprintf("id: %d\n%s", i, strings.Replace(chunk("the"), "chatcmpl-1", fmt.Sprint("chatcmpl-", i), 1))
	})
	f("citations with each event", false, func(int) string {
		return strings.Replace(chunk("the"), `"created"`, `"citations":["`+page+`"],"created"`, 1)
	})
	f("comments", true, func(i int) string { return fmt.Sprint(": ", i, novel, "\n\n", chunk("the")) })
	f("event names", true, func(i int) string { return fmt.Sprint("event: ", i, novel, novel, "\n", chunk("the")) })
	f("ids", true, func(i int) string {
		return strings.Replace(chunk("the"), "chatcmpl-1", fmt.Sprint(i, novel, novel), 1)
	})
	f("unrequested logprobs", true, func(i int) string {
		return strings.Replace(chunk("the"), `"logprobs":null`, fmt.Sprintf(`"logprobs":{"content":[{"token":"%d%s%s"}]}`,
			i, novel, novel), 1)
	})
}
