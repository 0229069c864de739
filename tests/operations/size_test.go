package operations

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// mostBinary is the size limit of the output of `make build`. It is a little above
// today's size: raise it together with a reason. 10 MB of it read pages
// and documents: PDFium (5), a browser's protocol (2), and office formats. 2 MB are
// the other forms and dialects of chat, with a JSON schema validator, and 2.5 MB sound, music and videos: jobs, their dialects
// and a client of S3 (1.2). 1 MB are wallets: signatures and payments of two families
// of chains, facilitators, and the simulated ones of the demonstration; enclaves; 0.2 MB
// are the attacks on shared resources (bench attack). 0.4 MB are the operator's books
// (statements, transfers without a payment, their migration) and lists of jobs. 0.3 MB are
// the tools of agents, the rules of Claude's models, and kept items. 0.4 MB are stored answers, the OpenAPI document
// and the JSON schema of the config. 0.6 MB are the first config (questions, the list of prices, configs of LiteLLM),
// warnings with their remedies, the health check, and the sweeps of the comparison. 1.1 MB are the operators' API: its
// operations, lists, tokens and audit log, their OpenAPI document, profiles of the process, and log files that rotate.
// 0.7 MB are details of requests, retention and erasure, questions between nodes, steering, and the checks of health.
// 0.05 MB write the events of translated dialects in the forms of clients without chat completions between them, and are
// the turns of customers at reports and changes of keys.
const mostBinary = 54_350_000

// "The binary had grown to 40 MB, a quarter of it tables that few requests need."
func TestTheBinaryIsSmallAndNeedsNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the limit is that of linux/amd64")
	}
	path := rig.Binary(t)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Section(".symtab") != nil {
		t.Skip("the binary is not that of `make build`: it has its symbols")
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs libraries of the system: build it with CGO_ENABLED=0")
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() <= mostBinary {
		return
	}
	sections := slices.DeleteFunc(slices.Clone(file.Sections),
		func(s *elf.Section) bool { return s.Type == elf.SHT_NOBITS })
	slices.SortFunc(sections, func(a, b *elf.Section) int { return int(b.FileSize) - int(a.FileSize) })
	var list strings.Builder
	for _, s := range sections[:min(6, len(sections))] {
		fmt.Fprintf(&list, "\n  %-12s %10d", s.Name, s.FileSize)
	}
	t.Errorf(`the binary has %d bytes, at most %d are meant. Its sections:%s
What is new in it:
  CGO_ENABLED=0 go build -tags nodynamic -o /tmp/farebox . && go tool nm -size -sort size /tmp/farebox | head -100
  go list -tags nodynamic -deps -f '{{range .EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' . | xargs ls -lS
.rodata grows by tables and embedded files (compress those, as providers/tokens does), .text and .gopclntab together by code:
ask of a new dependency what else it links (go list -deps).`, info.Size(), mostBinary, list.String())
}
