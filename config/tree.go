package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth of nesting. A config needs 7 levels; the YAML parser recurses,
	// so a deep file must be refused before it runs.
	maxDepth = 40
	// maxTokens bounds the parser's work and memory.
	maxTokens = 400_000
	// maxKeys of one group. The parser's work grows with the square of it:
	// 130,000 keys took 34 s. The largest real group is a list of headers.
	maxKeys = 2_000
	// maxMerged is how many keys `<<` may copy in a whole file: merges of
	// merges multiply.
	maxMerged = 10_000
)

// node is one value of the file with its place. Anchored values are shared by
// their aliases, so the whole is an acyclic graph, not a tree.
type node struct {
	kind   nodeKind
	text   string // of a scalar, as written (plain) or unquoted
	quoted bool
	block  bool // a scalar written with | or >
	pairs  []pair
	items  []*node

	line, column int
	after        *token.Token // the next token behind the value; nil at the end
}

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	mappingNode
	sequenceNode
	nullNode
	badNode // reported already
)

// pair is one key of a mapping.
type pair struct {
	name   string
	at     position
	merged bool // came in through <<
	value  *node
}

func (n *node) at() position { return position{n.line, n.column} }
func (n *node) isNull() bool { return n.kind == nullNode }

// describe names the kind of value for messages; never its text.
func (n *node) describe() string {
	switch n.kind {
	case mappingNode:
		return "a group of keys"
	case sequenceNode:
		return "a list"
	case nullNode:
		return "nothing"
	}
	switch {
	case n.quoted || n.block:
		return "text"
	case looksBool(n.text):
		return "true or false"
	case looksNumber(n.text):
		return "a number"
	}
	return "text"
}

// treeBuilder makes the tree of one document.
type treeBuilder struct {
	*report
	anchors map[string]*node
	merged  int
	depth   int
}

// parseTree reads the source as one YAML document. A nil node without a
// problem is an empty file.
func parseTree(s *source, r *report) (root *node) {
	defer func() {
		// The YAML library has had index panics on broken input; a bad file
		// must never end the process, least of all at a reload.
		if p := recover(); p != nil {
			r.add(position{1, 1}, "", "the file cannot be read as YAML (%v); look for a bracket or quote that is "+
				"not closed", p)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(s.text)
	if !shallow(tokens, r) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		reportSyntax(s, r, err)
		return nil
	}
	p := &treeBuilder{report: r, anchors: map[string]*node{}}
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		at := bodyPlace(doc.Body)
		if doc.Body.Type() == ast.DirectiveType {
			r.add(at, "", "directives such as %%YAML are not used here; expected the config itself: remove the line")
			continue
		}
		if documents++; documents > 1 {
			r.add(at, "", "a second document starts here; expected one document: remove the line ---")
			return nil
		}
		root = p.plant(doc.Body)
	}
	return root
}

// shallow refuses a token list that the recursive parser should not see.
func shallow(tokens token.Tokens, r *report) bool {
	if len(tokens) > maxTokens {
		r.add(position{1, 1}, "", "the file has more than %d YAML tokens; split the models over several gateways",
			maxTokens)
		return false
	}
	// A level is a block that is open, known by its column, or an open bracket
	// (column 0). A block level needs a column of its own.
	type level struct{ column, keys int }
	var open []level
	for _, t := range tokens {
		at := position{t.Position.Line, t.Position.Column}
		top := len(open) - 1
		inBrackets := top >= 0 && open[top].column == 0
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			open = append(open, level{})
		case token.MappingEndType, token.SequenceEndType:
			if inBrackets {
				open = open[:top]
			}
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.AnchorType, token.TagType:
			if !inBrackets {
				column := at.column
				if t.Type == token.MappingValueType && t.Prev != nil && t.Prev.Position.Line == at.line {
					column = t.Prev.Position.Column
				}
				for len(open) > 0 && open[len(open)-1].column > column {
					open = open[:len(open)-1]
				}
				if len(open) == 0 || open[len(open)-1].column != column {
					open = append(open, level{column: column})
				}
			}
			if t.Type == token.MappingValueType {
				if open[len(open)-1].keys++; open[len(open)-1].keys > maxKeys {
					r.add(at, "", "one group has more than %d keys; the largest that a config needs has a few dozen",
						maxKeys)
					return false
				}
			}
		}
		if len(open) > maxDepth {
			r.add(at, "", "nested deeper than %d levels; a config needs 7", maxDepth)
			return false
		}
	}
	return true
}

var (
	bareStar = regexp.MustCompile(`[:\[,{-]\s*\*\s*([\]},#]|$)`)
	noSpace  = regexp.MustCompile(`^\s*(- )?[a-z][a-z0-9_]*:[^\s/]`)
)

// reportSyntax turns the library's error into a problem of ours.
func reportSyntax(s *source, r *report, err error) {
	at, message := position{1, 1}, "the file is not YAML"
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		message = "not valid YAML: " + strings.ReplaceAll(syntax.GetMessage(), "'\t'", "tab")
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			at = position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
		}
	}
	line := s.line(at.line)
	switch {
	case bareStar.MatchString(line):
		at.column = utf8.RuneCountInString(line[:strings.Index(line, "*")]) + 1
		message += `; expected "*" in quotes, since * alone begins an alias`
	case noSpace.MatchString(line):
		message += "; expected a space behind the colon of a key"
	case strings.Contains(line, "{{"):
		at.column = utf8.RuneCountInString(line[:strings.Index(line, "{{")]) + 1
		message += "; templates are not filled in here: expected ${NAME} for an environment variable"
	case strings.Contains(line[:indent(line)], "\t"):
		message += "; indent with spaces, not with tabs"
	case strings.Contains(line, "${") && strings.ContainsAny(strings.ReplaceAll(line, "${", ""), "{["):
		message += `; inside { } and [ ] write "${NAME}" in quotes`
	default:
		message += "; check indentation, brackets and quotes here and on the line above"
	}
	s.hideGuessed(at.line)
	r.add(at, "", "%s", message)
}

// plant converts a node of the library. Depth is bounded by shallow.
func (tb *treeBuilder) plant(from ast.Node) *node {
	if tb.depth++; tb.depth > 4*maxDepth {
		panic("nesting")
	}
	defer func() { tb.depth-- }()
	t := from.GetToken()
	n := &node{line: t.Position.Line, column: t.Position.Column, after: t.Next}
	switch from := from.(type) {
	case *ast.NullNode:
		n.kind = nullNode
	case *ast.LiteralNode:
		n.text, n.block = from.Value.Value, true
		if content := from.Value.GetToken(); content != nil {
			n.after = content.Next
		}
	case *ast.MappingNode:
		tb.mapping(n, from.Values)
		if from.End != nil {
			n.after = from.End.Next
		}
	case *ast.MappingValueNode:
		tb.mapping(n, []*ast.MappingValueNode{from})
	case *ast.SequenceNode:
		n.kind = sequenceNode
		for _, item := range from.Values {
			n.items = append(n.items, tb.plant(item))
		}
		if len(n.items) > 0 {
			n.after = n.items[len(n.items)-1].after
		}
		if from.End != nil {
			n.after = from.End.Next
		}
	case *ast.AnchorNode:
		n = tb.plant(from.Value)
		tb.anchors[from.Name.GetToken().Value] = n
	case *ast.AliasNode:
		name := from.Value.GetToken().Value
		if known := tb.anchors[name]; known != nil {
			return known
		}
		tb.add(n.at(), "", "alias *%s is used before its anchor &%s is complete; expected an anchor further up",
			clip(name), clip(name))
		n.kind = badNode
	case *ast.TagNode:
		tb.add(n.at(), "", "tag %s is not used here; remove it", clip(t.Value))
		n.kind = badNode
	case ast.ScalarNode:
		n.column = tb.src.skipSpace(n.at()) // the library does not count tabs before a value
		n.text = t.Value
		n.quoted = t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	default:
		tb.add(n.at(), "", "%s is not used here; expected a value", from.Type())
		n.kind = badNode
	}
	return n
}

// mapping fills n with keys. The first of two equal keys counts.
func (tb *treeBuilder) mapping(n *node, values []*ast.MappingValueNode) {
	n.kind = mappingNode
	seen := map[string]int{}
	var merges []*node
	for i, v := range values {
		t := v.Key.GetToken()
		at := position{t.Position.Line, t.Position.Column}
		if i == 0 && n.column != at.column && v.Start != nil && n.line == v.Start.Position.Line &&
			n.column == v.Start.Position.Column {
			n.line, n.column = at.line, at.column // the colon stands for a block mapping
		}
		value := tb.plant(v.Value)
		n.after = value.after
		tb.src.hideNamed(t.Value, value)
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merges = append(merges, value)
			continue
		}
		if k, ok := v.Key.(*ast.MappingKeyNode); ok && k.Value != nil {
			t = k.Value.GetToken()
		}
		name := t.Value
		if first, ok := seen[name]; ok {
			tb.src.hide(value)
			tb.add(at, "", "key %q is written twice; the first is on line %d: remove one", clip(name), first)
			continue
		}
		seen[name] = at.line
		n.pairs = append(n.pairs, pair{name: name, at: at, value: value})
	}
	for _, m := range merges {
		tb.merge(n, m, seen)
	}
}

// merge adds the keys of a `<<` that n does not have itself.
func (tb *treeBuilder) merge(n, from *node, seen map[string]int) {
	sources := []*node{from}
	if from.kind == sequenceNode {
		sources = from.items
	}
	for _, one := range sources {
		if one.kind != mappingNode {
			tb.add(one.at(), "", "<< merges %s; expected an alias of a group of keys", one.describe())
			continue
		}
		if tb.merged += len(one.pairs); tb.merged > maxMerged {
			if tb.merged-len(one.pairs) <= maxMerged {
				tb.add(n.at(), "", "<< has copied more than %d keys; write the values out", maxMerged)
			}
			return
		}
		for _, k := range one.pairs {
			if _, ok := seen[k.name]; ok {
				continue
			}
			seen[k.name] = k.at.line
			k.merged = true
			n.pairs = append(n.pairs, k)
		}
	}
}

// bodyPlace is where a document starts.
func bodyPlace(body ast.Node) position {
	if m, ok := body.(*ast.MappingNode); ok && len(m.Values) > 0 {
		body = m.Values[0].Key
	}
	t := body.GetToken()
	return position{t.Position.Line, t.Position.Column}
}

// clip bounds text that is quoted in a message.
func clip(s string) string {
	const most = 60
	runes := []rune(pasted.ReplaceAllString(userinfo.ReplaceAllString(s, "://"+mask+"@"), mask))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

func quote(s string) string { return fmt.Sprintf("%q", clip(s)) }
