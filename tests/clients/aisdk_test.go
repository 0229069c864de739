package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// aisdkModels are the models that each of its providers is tried with: openai() asks
// /responses, anthropic() asks /messages.
var aisdkModels = map[string][]string{
	"openai":    {"openai", "responses", "anthropic", "gemini"},
	"anthropic": {"openai", "anthropic", "gemini"},
}

// tryAISDK has Vercel's AI SDK do all it does, in the versions that people use, and returns
// the rows of the table.
func tryAISDK(t *testing.T, g *rig.Gateway, key, poor string) (table []string) {
	t.Helper()
	dir := filepath.Join("bench", "clients", "agents")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "ai5")); err != nil {
		servers.Missing(t, "ai5 of "+dir)
	}
	for _, version := range []string{"5", "6", "7"} {
		for provider, models := range aisdkModels {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			cmd := exec.CommandContext(ctx, "node", append([]string{"aisdk.mjs", version, provider}, models...)...)
			cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
			cmd.Env = append(os.Environ(), "FAREBOX_URL="+g.URL, "FAREBOX_KEY="+key, "FAREBOX_POOR_KEY="+poor, "NO_COLOR=1",
				"AI_SDK_LOG_WARNINGS=false")
			var says strings.Builder
			cmd.Stderr = &says
			out, err := cmd.Output()
			cancel()
			rows := 0
			for line := range strings.Lines(string(out)) {
				if row := strings.Split(strings.TrimSpace(line), "\t"); len(row) == 3 {
					rows++
					table = append(table, "| AI SDK "+version+", "+provider+"() | "+strings.Join(row, " | ")+" |")
				}
			}
			if err != nil || rows == 0 || strings.Contains(string(out), "\tfailed") {
				t.Errorf("AI SDK %s, %s(): %v\n%s", version, provider, err, says.String())
			}
		}
	}
	return table
}
