package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vague are names that a search finds everywhere. In a package one idea may have each.
var vague = strings.Fields("read begin ask close look own have go stand come leave tell kept told found")

// names are the names of a package's functions.
type names struct {
	receivers []string                       // that are not one or two letters of their type
	vague     map[string]map[string]struct{} // the types that have a vague name; "" for functions
	shared    map[string]bool                // names that an interface of the package has
}

func namesOf(t *testing.T, dir string) *names {
	t.Helper()
	n := &names{vague: map[string]map[string]struct{}{}, shared: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go")) // those of other systems, too
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(x ast.Node) bool {
			switch x := x.(type) {
			case *ast.InterfaceType:
				for _, method := range x.Methods.List {
					for _, name := range method.Names {
						n.shared[name.Name] = true
					}
				}
			case *ast.FuncDecl:
				n.add(x)
			}
			return true
		})
	}
	return n
}

func (n *names) add(f *ast.FuncDecl) {
	owner := ""
	if f.Recv != nil {
		owner = typeName(f.Recv.List[0].Type)
		if list := f.Recv.List[0].Names; len(list) > 0 && !isReceiver(list[0].Name, owner) {
			n.receivers = append(n.receivers, list[0].Name+" of "+owner+"."+f.Name.Name)
		}
	}
	if name := f.Name.Name; slices.Contains(vague, name) {
		if n.vague[name] == nil {
			n.vague[name] = map[string]struct{}{}
		}
		n.vague[name][owner] = struct{}{}
	}
}

// typeName is the name of a receiver's type.
func typeName(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// isReceiver says that name is one or two letters of the type's name.
func isReceiver(name, owner string) bool {
	if name == "_" {
		return true
	}
	owner = strings.ToLower(owner)
	for _, letter := range name {
		if !strings.ContainsRune(owner, letter) {
			return false
		}
	}
	return len(name) <= 2
}

// "A search for read finds 43 functions." A receiver is one or two letters of its type. A vague
// name belongs to one type of a package, or to all that have an interface's method.
func TestNamesAreFoundBySearches(t *testing.T) {
	count := 0
	for _, p := range listed(t, "farebox/...") {
		n := namesOf(t, p.Dir)
		for _, r := range n.receivers {
			t.Errorf("%s: the receiver %s is not one or two letters of its type", p.ImportPath, r)
		}
		for name, owners := range n.vague {
			count++
			if len(owners) > 1 && !n.shared[name] {
				t.Errorf("%s: %d types have %s: name it after its action", p.ImportPath, len(owners), name)
			}
		}
	}
	if count == 0 {
		t.Error("no function has any of these names: is the list right?")
	}
}
