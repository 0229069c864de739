package laws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the product's module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pkg is a package of `go list`.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

// listed runs `go list` once for each question, in tests/, where packages of both modules have their names.
func listed(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-tags", "nodynamic", "-json=ImportPath,Dir,GoFiles,Imports,Module"}, args...)...)
	cmd.Dir = filepath.Join(root(t), "tests")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// allowed are the rooms that a room imports beside itself.
var allowed = map[string][]string{
	"config":    nil,
	"proxy":     nil,
	"billing":   {"config"},
	"providers": {"config", "proxy"},
	"routes":    {"config", "proxy", "providers", "billing"},
	"bench":     nil,
}

// imports that break the law, with the reason.
var imports = excuses{
	"farebox/billing/cli farebox/providers/x402/chain":       "commands about transfers search chains",
	"farebox/billing/cli farebox/providers/x402/chainclient": "commands about transfers search chains",
}

// excuses are exceptions by name, with their reasons.
type excuses map[string]string

// check reports faults without an excuse, and excuses without a use.
func (e excuses) check(t *testing.T, wrong map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(keys(wrong)) {
		if e[name] == "" {
			t.Errorf("%s: %s", name, wrong[name])
		}
	}
	for name := range e {
		if wrong[name] == "" {
			t.Errorf("%s does not break the law any more: remove its reason", name)
		}
	}
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func room(path string) string {
	_, below, _ := strings.Cut(path, "/")
	name, _, _ := strings.Cut(below, "/")
	return name
}

// A room imports only the rooms that ARCHITECTURE.md names. A package that imports nothing of farebox serves all rooms;
// packages that help tests are tests.
func TestRoomsImportEachOtherAsTheyMay(t *testing.T) {
	all := listed(t, "farebox/...")
	leaf := map[string]bool{}
	for _, p := range all {
		leaf[p.ImportPath] = !slices.ContainsFunc(p.Imports, func(i string) bool { return strings.HasPrefix(i, "farebox/") })
	}
	wrong := map[string]string{}
	for _, p := range all {
		from := room(p.ImportPath)
		may, known := allowed[from]
		if !known || strings.HasSuffix(p.ImportPath, "test") || strings.HasPrefix(p.ImportPath, "farebox/bench/cmd/") {
			continue
		}
		for _, i := range p.Imports {
			to := room(i)
			if !strings.HasPrefix(i, "farebox/") || to == from || slices.Contains(may, to) || leaf[i] {
				continue
			}
			wrong[p.ImportPath+" "+i] = from + " must not import " + to
		}
	}
	imports.check(t, wrong)
}

// The spine imports no capability, and capabilities do not import each other.
func TestCapabilitiesKnowTheSpineOnly(t *testing.T) {
	wrong := map[string]string{}
	for _, p := range listed(t, "farebox/routes/...") {
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, "farebox/routes/") {
				continue
			}
			wrong[p.ImportPath+" "+i] = "neither the spine nor a capability imports a capability"
		}
	}
	capabilities.check(t, wrong)
}

// capabilities that others know, with the reason.
var capabilities = excuses{
	"farebox/routes/run farebox/routes/operator": "the process opens the operators' listener beside that of clients",
}

const (
	mostFiles     = 20 // of a folder, without tests
	mostFilesEver = 30
	mostLines     = 500 // of a file
	mostMain      = 200 // of main.go
	mostFunction  = 70  // lines
)

// folders with more files than a reader keeps in mind, with the reason.
var folders = excuses{
	"bench/upstream":           "one server speaks the wire formats of all vendors",
	"billing":                  "the ledger with its accounts, keys, holds, leases and wallets",
	"billing/store":            "a file for each table, and for each engine",
	"config":                   "a file for each section of the config",
	"providers":                "the catalog: a record for each type of model",
	"providers/chat/dialect":   "what all dialects of chat share",
	"providers/chat/responses": "POST /responses: requests, items, tools and events of both directions",
	"providers/rpc":            "reads, batches, caches, health and chains of blockchain nodes",
	"proxy":                    "connections of both sides, relay, listeners and the life of the process",
	"routes":                   "the spine: server, routes, keys, sale, rules, errors, metrics",
	"routes/chat":              "the request of a chat, its answer in all forms, its web tools",
}

// functions that are longer than a page, with the reason.
var functions = excuses{
	"bench/attacking.go attackCommand":                    "flags of one command",
	"bench/upstream/hearing.go answer":                    "the steps of one request in order",
	"bench/upstream/serve.go answer":                      "a table of paths",
	"bench/upstream/strict/content.go content":            "a case for each kind of content",
	"billing/admit.go admitHere":                          "the checks of an admission under one lock, in the order of the specification",
	"providers/chat/responses/native_stream.go readEvent": "a case for each event",
	"providers/rpc/batch.go assemble":                     "one pass over the answers of a batch",
	"providers/web/tools.go make":                         "a case for each tool",
	"proxy/scan/skim.go skipContainer":                    "hot path: a loop over bytes, calls would cost",
	"proxy/scan/skim.go walk":                             "hot path: a loop over bytes, calls would cost",
	"routes/chat/messages.go checkParts":                  "a case for each kind of part",
	"routes/openapi.go describe":                          "one operation of the document, member by member",
	"tests/record/pictures.go pictures":                   "a list of requests that are recorded",
}

func TestFoldersFilesAndFunctionsAreShort(t *testing.T) {
	tooMany, tooLong := map[string]string{}, map[string]string{}
	for _, p := range listed(t, "farebox/...") {
		dir, err := filepath.Rel(root(t), p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.GoFiles); n > mostFiles {
			tooMany[dir] = fmt.Sprintf("has %d files, more than %d", n, mostFiles)
			if n > mostFilesEver && !slices.Contains([]string{"config", "billing", "routes", "proxy"}, dir) && folders[dir] == "" {
				t.Errorf("%s has %d files; more than %d have only config, billing, routes and proxy", dir, n, mostFilesEver)
			}
		}
		tests, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(tests, whole(p)...) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root(t), file)
			most := mostLines
			if name == "main.go" {
				most = mostMain
			}
			if n := bytes.Count(text, []byte("\n")); n > most {
				t.Errorf("%s has %d lines, more than %d", name, n, most)
			}
		}
		for _, file := range whole(p) {
			for name, lines := range lengths(t, file) {
				if rel, _ := filepath.Rel(root(t), file); lines > mostFunction {
					tooLong[rel+" "+name] = fmt.Sprintf("has %d lines, more than %d", lines, mostFunction)
				}
			}
		}
	}
	folders.check(t, tooMany)
	functions.check(t, tooLong)
}

func whole(p pkg) []string {
	var files []string
	for _, f := range p.GoFiles {
		files = append(files, filepath.Join(p.Dir, f))
	}
	return files
}

// lengths are the lines of each function of a file.
func lengths(t *testing.T, file string) map[string]int {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			of[fn.Name.Name] = max(of[fn.Name.Name], set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1)
		}
	}
	return of
}

// Every exported name has a comment that begins with it, and each package states its purpose.
func TestExportedIdentifiersAreDocumented(t *testing.T) {
	for _, p := range listed(t, "farebox/...") {
		if room(p.ImportPath) == "tests" || strings.HasPrefix(p.ImportPath, "farebox/bench/clients") {
			continue
		}
		documented := false
		for _, file := range whole(p) {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || f.Doc != nil
			for _, d := range f.Decls {
				for _, missing := range undocumented(d) {
					name, _ := filepath.Rel(root(t), file)
					t.Errorf("%s:%d: %s has no comment", name, set.Position(d.Pos()).Line, missing)
				}
			}
		}
		if !documented {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// interfaces are methods that every reader of Go knows.
var interfaces = []string{"Error", "Unwrap", "String", "GoString", "MarshalJSON", "MarshalYAML"}

// undocumented are the exported names of a declaration without a comment. The comment of a group covers its members.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		standard := d.Recv != nil && slices.Contains(interfaces, d.Name.Name)
		if d.Name.IsExported() && d.Doc == nil && !standard && (d.Recv == nil || exported(d.Recv)) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
		return names
	}
	return nil
}

// exported says that a method belongs to a type that others see.
func exported(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch of := typ.(type) {
		case *ast.StarExpr:
			typ = of.X
		case *ast.IndexExpr:
			typ = of.X
		case *ast.IndexListExpr:
			typ = of.X
		case *ast.Ident:
			return of.IsExported()
		default:
			return false
		}
	}
}

// testPackages are simulators and checks that tests and tools alone use.
var testPackages = []string{
	"farebox/bench/upstream/facilitator", "farebox/bench/upstream/node", "farebox/bench/upstream/strict",
}

// Requests that vendors refuse are found by tests alone: they ask package strict. Those of bench send to the
// simulated upstream directly.
func TestTestsAskStrictUpstreams(t *testing.T) {
	for _, p := range listed(t, "farebox/...") {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root(t), file)
			mayBeLenient := strings.HasPrefix(name, "bench/") || name == "main.go" || name == "tests/laws/laws_test.go"
			if !mayBeLenient && bytes.Contains(text, []byte("upstream.New(")) {
				t.Errorf("%s starts an upstream that accepts requests that vendors refuse: use strict.New", name)
			}
		}
	}
}
