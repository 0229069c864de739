package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// abilities are the members of a dialect in config, each with that of its adapter in providers.
var abilities = map[string]string{"writes": "chat", "draws": "picture", "speaks": "speaker", "hears": "listens"}

// Package config promises the abilities of a dialect, providers has its adapters. Without this test a missing adapter
// shows when a server starts, or when a request comes.
func TestDialectsHaveTheAdaptersThatConfigPromises(t *testing.T) {
	promised, adapters := map[string]bool{}, map[string]bool{}
	for _, e := range variable(t, "config/dialect.go", "dialects").Elts {
		members := members(e.(*ast.CompositeLit))
		name := members["name"].(*ast.BasicLit).Value
		promised[name] = true
		for does, by := range abilities {
			if members[does] != nil {
				promised[name+" "+by] = true
			}
		}
	}
	for _, e := range variable(t, "providers/dialects.go", "dialects").Elts {
		entry := e.(*ast.KeyValueExpr)
		name := entry.Key.(*ast.BasicLit).Value
		adapters[name] = true
		for member := range members(entry.Value.(*ast.CompositeLit)) {
			if slices.Contains(slices.Collect(maps.Values(abilities)), member) {
				adapters[name+" "+member] = true
			}
		}
	}
	if len(promised) < 20 {
		t.Errorf("only %d dialects and abilities were read", len(promised))
	}
	for what := range promised {
		if !adapters[what] {
			t.Errorf("config/dialect.go has %s, providers/dialects.go has not", strings.ReplaceAll(what, `"`, ""))
		}
	}
	for what := range adapters {
		if !promised[what] {
			t.Errorf("providers/dialects.go has %s, config/dialect.go has not", strings.ReplaceAll(what, `"`, ""))
		}
	}
}

// variable is the list or map that a file gives a variable.
func variable(t *testing.T, path, name string) *ast.CompositeLit {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && v.Names[0].Name == name && len(v.Values) == 1 {
				return v.Values[0].(*ast.CompositeLit)
			}
		}
	}
	t.Fatalf("%s has no variable %s", path, name)
	return nil
}

// members are the values of a struct by their names.
func members(of *ast.CompositeLit) map[string]ast.Expr {
	list := map[string]ast.Expr{}
	for _, e := range of.Elts {
		entry := e.(*ast.KeyValueExpr)
		list[entry.Key.(*ast.Ident).Name] = entry.Value
	}
	return list
}
