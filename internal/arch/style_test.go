package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of a function outside tests: lines from func to the closing brace, and
// ways through it (McCabe).
const (
	maxLines      = 60
	maxComplexity = 15
)

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range load(t).own() {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no doc comment", p.room())
		}
	}
}

func TestPackagesAreNamedForWhatTheyDo(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "base", "shared"}
	for _, p := range load(t).own() {
		if slices.Contains(empty, p.Name) {
			t.Errorf("%s: the name %q says nothing", p.room(), p.Name)
		}
	}
}

func TestFunctionsAreShortAndSimple(t *testing.T) {
	eachFunction(t, func(at string, lines int, f *ast.FuncDecl) {
		if lines > maxLines {
			t.Errorf("%s: %s has %d lines, more than %d", at, f.Name.Name, lines, maxLines)
		}
		if n := complexity(f); n > maxComplexity {
			t.Errorf("%s: %s has complexity %d, more than %d", at, f.Name.Name, n, maxComplexity)
		}
	})
}

// init runs before anyone asked for it; a panic for bad input takes the whole
// program along.
func TestNoInitAndNoPanic(t *testing.T) {
	eachFunction(t, func(at string, _ int, f *ast.FuncDecl) {
		if f.Recv == nil && f.Name.Name == "init" {
			t.Errorf("%s: init()", at)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isIdent(call.Fun, "panic") {
				t.Errorf("%s: %s calls panic", at, f.Name.Name)
			}
			return true
		})
	})
}

// process are the names that reach into the process. Libraries get streams,
// environment and paths from their callers.
var process = map[string][]string{
	"fmt": {"Print", "Printf", "Println"},
	"os":  {"Getenv", "LookupEnv", "Environ", "Exit", "Stdin", "Stdout", "Stderr", "Args"},
	"log": {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"},
}

func TestLibrariesLeaveTheProcessAlone(t *testing.T) {
	eachFunction(t, func(at string, _ int, f *ast.FuncDecl) {
		if room := filepath.ToSlash(filepath.Dir(at)); !light(room) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(process[x.Name], sel.Sel.Name) {
					t.Errorf("%s: %s uses %s.%s", at, f.Name.Name, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	})
}

// eachFunction visits the functions outside tests and examples. at is the file
// with the line.
func eachFunction(t *testing.T, visit func(at string, lines int, f *ast.FuncDecl)) {
	t.Helper()
	fset := token.NewFileSet()
	for _, file := range sources(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "examples/") {
			continue
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				from, to := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
				visit(file, to-from+1, f)
			}
		}
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// complexity is one more than the number of decisions.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
