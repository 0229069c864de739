package clients

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"farebox/tests/rig"
)

// situation is a task for an agent, and the proof that it worked.
type situation struct {
	name      string
	call      string   // of the simulated model, as tool and JSON
	calls     int      // of the tool at once; 0: one
	rounds    int      // of calls; 0: one
	says      string   // the simulated model's whole answer
	scenario  string   // of the simulated model beside its calls
	arguments []string // in the place of the agent's own
	variables []string // beside the agent's own
	does      func(folder string) bool
	wants     string // in the agent's output; empty: any answer
	fails     bool   // it ends with an error, which has the wanted words
	leaves    string // member that is left out of a request, and reported
	sends     string // in one of its requests to the model

	// stops says when the agent is killed. It goes on with its conversation then.
	stops func(g *rig.Gateway, folder string) bool
}

// prompt has the simulated model call a tool, and answer once its result is there.
func (s *situation) prompt() string {
	sim := s.scenario
	if name, args, ok := strings.Cut(s.call, " "); ok {
		sim += " tool=" + name + " calls=" + strconv.Itoa(max(1, s.calls)) + " rounds=" + strconv.Itoa(max(1, s.rounds)) +
			" args=" + base64.RawURLEncoding.EncodeToString([]byte(args))
	}
	if s.says != "" {
		sim += " echo=" + url.PathEscape(s.says)
	}
	if sim == "" {
		return goesOn
	}
	return "[[sim " + strings.TrimSpace(sim) + "]] Do it."
}

// goesOn is the prompt of an agent that was interrupted.
const (
	goesOn  = "[[sim echo=" + answers + "]] Say something."
	answers = "the-model-answers"
)

// wrote says whether an agent's tool wrote to a file so many times.
func wrote(times int) func(folder string) bool {
	return func(folder string) bool {
		text, err := os.ReadFile(filepath.Join(folder, "made.txt"))
		return err == nil && string(text) == strings.Repeat("farebox\n", times)
	}
}

// answering says whether an agent's answer is on its way, running whether its tool is at work.
func answering(g *rig.Gateway, _ string) bool {
	n, _ := g.Metric("farebox_holds_open")
	return n > 0
}

func running(_ *rig.Gateway, folder string) bool { return wrote(1)(folder) }

func wroteNothing(folder string) bool { return !wrote(1)(folder) }

var (
	codexPlain = []situation{
		{name: "answers", wants: answers},
		{name: "runs a command", call: `exec_command {"cmd":"echo farebox > made.txt"}`, does: wrote(1)},
		{name: "runs a command twice", rounds: 2, call: `exec_command {"cmd":"echo farebox >> made.txt"}`, does: wrote(2)},
		{name: "runs two commands at once", calls: 2, call: `exec_command {"cmd":"echo farebox >> made.txt"}`, does: wrote(2)},
		{
			name: "is refused a tool", call: `exec_command {"cmd":"echo farebox > made.txt"}`, does: wroteNothing, sends: "Process exited with code",
			arguments: prompted("exec", "--skip-git-repo-check", "--sandbox", "read-only"),
		},
		{name: "sees a picture", call: `view_image {"path":"picture.png"}`, sends: pictureFile[:20]},
		{name: "wants to search the web", wants: answers, leaves: "tools.web_search"},
		{name: "is killed in an answer and goes on", scenario: "tokens=400 gap_ms=20", stops: answering, wants: answers},
		{
			name: "is killed in a command and goes on", stops: running, wants: answers,
			call: `exec_command {"cmd":"echo farebox > made.txt; sleep 3"}`,
		},
		{name: "is told that its context is full", scenario: "status=400 kind=context", fails: true, wants: "ran out of room"},
	}
	claudePlain = []situation{
		{name: "answers", wants: answers},
		{name: "runs a command", call: `Bash {"command":"echo farebox > made.txt","description":"Writes a file"}`, does: wrote(1)},
		{name: "runs a command twice", rounds: 2, call: `Bash {"command":"echo farebox >> made.txt","description":"Writes a file"}`, does: wrote(2)},
		{name: "runs two commands at once", calls: 2, call: `Bash {"command":"echo farebox >> made.txt","description":"Writes a file"}`, does: wrote(2)},
		{name: "is refused a tool", call: `Write {"file_path":"/made.txt","content":"x"}`},
		{name: "sees a picture", call: `Read {"file_path":"picture.png"}`, sends: pictureFile[:20]},
		{
			name: "wants to search the web", call: `WebSearch {"query":"farebox"}`, leaves: "tools.web_search",
			arguments: prompted("-p", "--allowedTools=Bash,WebSearch"), variables: []string{"ENABLE_TOOL_SEARCH=false"},
		},
		{name: "is killed in an answer and goes on", scenario: "tokens=400 gap_ms=20", stops: answering, wants: answers},
		{
			name: "is killed in a command and goes on", stops: running, wants: answers,
			call: `Bash {"command":"echo farebox > made.txt; sleep 3","description":"Writes a file"}`,
		},
		{name: "is told that its context is full", scenario: "status=400 kind=context", fails: true, wants: "Prompt is too long"},
	}
)

// pictureFile is the agents' picture: 64 x 64 black pixels.
const pictureFile = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR4nGNgGAWjgHwAAAJAAAFZNqEDAAAAAElFTkSuQmCC"
