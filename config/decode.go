package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"farebox/config/prices"
)

// maxVisits bounds the growth by aliases: a list of 100,000 aliases of a model with 100,000 keys
// is 4 MB of text.
const maxVisits = 1_000_000

// decoder fills a Config from a tree and remembers where each value stood, so
// that the rules checked later can point at it.
type decoder struct {
	*report
	expander
	at    map[string]written
	keys  map[string]position // where the operator's own names stand: tiers, headers
	bad   map[string]bool     // paths that were reported; rules leave them alone
	empty []string            // paths of keys with nothing behind them
	// misplaced says that upstreams or models may stand under an unknown key.
	misplaced bool
	visits    int
	typ       string       // of the model that is being read; empty: one that is not served
	priced    *prices.List // of models such as openai/*; nil: not read yet
}

// written is the value of the file under a path.
type written struct {
	position
	node   *node
	secret bool
}

func newDecoder(r *report, env func(string) (string, bool)) *decoder {
	return &decoder{report: r, expander: expander{env: env}, at: map[string]written{}, keys: map[string]position{},
		bad: map[string]bool{}}
}

// fail reports a path once; its later mistakes follow from that.
func (d *decoder) fail(at position, path, format string, args ...any) {
	if d.bad[path] {
		return
	}
	d.bad[path] = true
	d.add(at, path, format, args...)
}

// value fills v, which already holds its defaults, from n. Others are groups
// whose keys are known here too, though they mean nothing.
func (d *decoder) value(path string, at position, n *node, v reflect.Value, others ...reflect.Value) {
	if d.visits++; d.visits > maxVisits {
		d.fail(at, path, "aliases make more than %d values of this file; write the values out", maxVisits)
		return
	}
	switch n.kind {
	case nullNode:
		// A key with nothing behind it is as good as no key. That is hardly meant where the key
		// would switch something on.
		if key := strings.HasSuffix(path, "].key"); key || v.Kind() == reflect.Pointer && isGroup(v.Type().Elem()) {
			d.empty = append(d.empty, path)
		}
		return
	case badNode:
		d.bad[path] = true
		return
	}
	where := n.at()
	_, secret := v.Interface().(Secret)
	d.at[path] = written{where, n, secret}
	if secret {
		d.src.hide(n)
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(path, at, n, v, others)
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			d.group(path, n, append([]reflect.Value{v}, others...))
			return
		}
		d.scalar(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Map:
		d.table(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

func (d *decoder) pointer(path string, at position, n *node, v reflect.Value, others []reflect.Value) {
	for _, p := range append([]reflect.Value{v}, others...) {
		p.Set(reflect.New(p.Type().Elem()))
		filled(p.Elem())
	}
	if price, ok := v.Interface().(priced); ok && n.kind == scalarNode {
		if n.text != "free" {
			d.fail(n.at(), path, "%s is not a price; expected the keys of a price below it, "+
				"such as input: and output:, or free", quote(n.text))
			return
		}
		price.setFree()
		return
	}
	for i := range others {
		others[i] = others[i].Elem()
	}
	d.value(path, at, n, v.Elem(), others...)
}

// group fills the first of the shapes by its yaml tags. The keys of the others
// are read as well, so that mistakes in their values are found.
func (d *decoder) group(path string, n *node, shapes []reflect.Value) {
	m, isModel := shapes[0].Addr().Interface().(*Model)
	if isModel {
		// The type, at any place in the mapping, decides the other keys.
		for _, k := range n.pairs {
			if k.name == "type" {
				d.member(path, n, k, shapes)
			}
		}
		shapes = d.shapes(m)
	}
	if n.kind != mappingNode {
		d.fail(n.at(), path, "%s stands here; expected %s", n.describe(), keysFor(path, shapes))
		return
	}
	for _, k := range n.pairs {
		if !isModel || k.name != "type" {
			d.member(path, n, k, shapes)
		}
	}
	refill(shapes[0])
}

// filled gives a value its defaults, if it is a group.
func filled(v reflect.Value) {
	if isGroup(v.Type()) {
		fill(v)
	}
}

// shapes gives a model the Spec of its type, and lists the others behind it.
func (d *decoder) shapes(m *Model) []reflect.Value {
	own, served := kindOf(m.Type)
	m.Spec, d.typ = own.spec(), ""
	if served {
		d.typ = m.Type
	}
	list, seen := []reflect.Value{reflect.ValueOf(m).Elem()}, []reflect.Type{reflect.TypeOf(m.Spec)}
	for _, k := range kinds {
		if spec := reflect.ValueOf(k.spec()); !slices.Contains(seen, spec.Type()) {
			list, seen = append(list, spec.Elem()), append(seen, spec.Type())
		}
	}
	return list
}

// member fills the field of one key of n.
func (d *decoder) member(path string, n *node, k pair, shapes []reflect.Value) {
	var fields []reflect.Value
	own := false
	for i, v := range shapes {
		if field, ok := fieldOf(v, k.name); ok && (len(fields) == 0 || field.Kind() == fields[0].Kind()) {
			fields, own = append(fields, field), own || i == 0
		}
	}
	if len(fields) == 0 {
		d.unknown(path, n, k, shapes)
		return
	}
	at := join(path, k.name)
	if _, secret := fields[0].Interface().(Secret); secret {
		d.cutOff(at, k)
	}
	if k.value.kind == nullNode {
		d.at[at] = written{k.at, k.value, false}
	}
	typ := d.typ
	if here := groupOf(shapes[0].Type()).byName[k.name]; here != nil && len(here.only) > 0 {
		own = slices.Contains(here.only, typ)
	}
	if !own {
		d.typ = "" // the keys below are not reported any more
	}
	d.value(at, k.at, k.value, fields[0], fields[1:]...)
	d.typ = typ
	if !own && typ != "" && k.value.kind < nullNode {
		d.foreign(at, k.name, typ)
	}
}

// foreign reports a key that only models of other types have.
func (d *decoder) foreign(path, key, typ string) {
	d.fail(d.at[path].position, path, "%s has no meaning for a model of type %s; expected it to be left out", key, typ)
}

// cutAway is a # that YAML takes for a comment though it touches the next character, as it does
// in a secret and not in a remark.
var cutAway = regexp.MustCompile(`^\s+#[^\s#]`)

// cutOff reports a secret that ends, or is gone whole, at a # within it.
func (d *decoder) cutOff(path string, k pair) {
	at, known := k.at, k.name
	if k.value.kind == scalarNode && !k.value.quoted && !k.value.block && !strings.Contains(k.value.text, "${") {
		at, known = k.value.at(), k.value.text
	} else if k.value.kind != nullNode {
		return
	}
	line := []rune(d.src.line(at.line))
	rest, ok := strings.CutPrefix(string(line[min(at.column-1, len(line)):]), known)
	if rest = strings.TrimPrefix(rest, ":"); !ok || !cutAway.MatchString(rest) {
		return
	}
	d.src.hidden[at.line] = append(d.src.hidden[at.line], span{at.column - 1, -1})
	d.fail(at, path, "YAML takes # and what follows for a comment, so that the secret is cut off there; expected it "+
		"whole in quotes, or a space behind # if this is a remark")
}

func (d *decoder) list(path string, n *node, v reflect.Value) {
	if n.kind != sequenceNode {
		d.fail(n.at(), path, "%s stands here; expected a list: write each entry on a line of its own after \"- \"",
			n.describe())
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		one := fmt.Sprintf("%s[%d]", path, i)
		filled(items.Index(i))
		if item.kind == nullNode {
			d.fail(item.at(), one, "the entry is empty; fill it in or remove the line")
			continue
		}
		d.value(one, item.at(), item, items.Index(i))
	}
	v.Set(items)
}

// table fills a map whose keys the operator chooses.
func (d *decoder) table(path string, n *node, v reflect.Value) {
	if n.kind != mappingNode {
		d.fail(n.at(), path, "%s stands here; expected keys with values", n.describe())
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, k := range n.pairs {
		value := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(k.name)); old.IsValid() {
			value.Set(old) // a built-in tier keeps the keys that are not written
		} else {
			filled(value)
		}
		d.keys[join(path, k.name)] = k.at
		d.value(join(path, k.name), k.at, k.value, value)
		v.SetMapIndex(reflect.ValueOf(k.name), value)
	}
}

var (
	addressKey    = regexp.MustCompile(`(^|\.)(base_url|url|store|listen|endpoint)$`)
	shellVariable = regexp.MustCompile(`\$([A-Z][A-Z0-9_]*)`)
)

// ofAddress are paths of addresses of wallets and tokens.
var ofAddress = regexp.MustCompile(`(^|\.)(pay_to|asset|(allow|deny)\[\d+\])$`)

// scalar reads one value from its text.
func (d *decoder) scalar(path string, n *node, v reflect.Value) {
	secret := d.at[path].secret
	if n.kind != scalarNode {
		if ofAddress.MatchString(path) {
			d.src.hide(n) // wallets of Solana keep keys as lists of numbers
		}
		hint := ""
		if n.kind == mappingNode && len(n.pairs) == 1 {
			// [127.0.0.1:6379] is read as a key with a value.
			hint = "; text with a colon in it needs quotes"
		}
		d.fail(n.at(), path, "%s stands here; expected %s%s", n.describe(), expected(v), hint)
		return
	}
	plain := !n.quoted && !n.block
	if ofAddress.MatchString(path) && privateKey.MatchString(n.text) {
		d.src.hide(n)
		d.fail(n.at(), path, "this is a private key, which no config needs; expected the address that belongs to it, in quotes")
		return
	}
	if (path == "listen" || path == "server.metrics_listen") && regexpDigits.MatchString(n.text) {
		d.fail(n.at(), path, "%s is a port alone; expected 127.0.0.1:%s, or \":%s\" for every address of this machine",
			quote(n.text), clip(n.text), clip(n.text))
		return
	}
	if v.Kind() == reflect.String && !secret && v.Type() != reflect.TypeFor[Decimal]() &&
		v.Type() != reflect.TypeFor[ChainID]() && plain && (looksBool(n.text) || looksNumber(n.text)) {
		d.fail(n.at(), path, "%s is %s; expected text: put it in quotes", quote(n.text), n.describe())
		return
	}
	name := foreignVariable(n.text)
	if secret && name != "" {
		d.fail(n.at(), path, "the text itself would be sent as the secret; expected ${%s} for the environment variable", name)
		return
	} else if name == "" && addressKey.MatchString(path) {
		// A password may have a $ of its own.
		if m := shellVariable.FindStringSubmatch(userinfo.ReplaceAllString(n.text, "://")); m != nil {
			name = m[1]
		}
		if name != "" {
			d.src.hide(n)
		}
	}
	if name != "" {
		d.fail(n.at(), path, "the text itself would be used; expected ${%s} for the environment variable", name)
		return
	}
	if secret && strings.ContainsAny(n.text, "“”„‘’") {
		d.fail(n.at(), path, "the secret has typographic quotes; expected plain ones, or none")
		return
	}
	text, err := d.expand(n.text)
	if err != nil {
		d.fail(n.at(), path, "%v", err)
		return
	}
	if whole := v.Kind() == reflect.Int || v.Kind() == reflect.Int64 &&
		v.Type() == reflect.TypeFor[int64](); (whole || v.Kind() == reflect.Bool) && !plain && text == n.text {
		d.fail(n.at(), path, "%s is text; expected %s without quotes", quote(n.text), expected(v))
		return
	}
	if err := readValue(text, v); err != nil && strings.HasSuffix(path, ".weight") {
		d.fail(n.at(), path, "%s is not a whole number; expected one such as 50, of which two make two equal shares", d.shown(path))
	} else if err != nil {
		d.fail(n.at(), path, "%s %v", d.shown(path), err)
	}
}

// readValue parses text into v by its type.
func readValue(text string, v reflect.Value) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *Secret:
		*p = Secret(text)
	case *string:
		*p = text
	case *bool:
		*p, err = readBool(text)
	case *int:
		var n int64
		if n, err = readInt(text); err == nil && int64(int(n)) != n {
			err = errors.New("is too large; expected a smaller whole number")
		}
		*p = int(n)
	case *int64:
		*p, err = readInt(text)
	case *time.Duration:
		*p, err = readDuration(text)
	case *time.Time:
		*p, err = readTime(text)
	case *Size:
		*p, err = readSize(text)
	case *Nano:
		*p, err = readNano(text)
	case *Pico:
		*p, err = readPrice(text)
	case *Each:
		*p, err = readEach(text)
	case *Decimal:
		*p, err = readDecimal(text)
	case *ChainID:
		*p, err = readChainID(text)
	default:
		panic(fmt.Sprintf("config: no reader for %s", v.Type()))
	}
	return err
}

// expected names the type of v for an operator.
func expected(v reflect.Value) string {
	switch v.Interface().(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case time.Duration:
		return "a duration such as 30s"
	case time.Time:
		return "a date such as 2026-08-31"
	case Size:
		return "a size such as 35MB"
	case Nano, Pico, Each, Decimal:
		return "a decimal number such as 0.25"
	case ChainID:
		return "the id of a chain such as 1 or 0x1"
	}
	return "text"
}

// shown is a value for messages: as it is in the file. Values of the environment or a file, and
// secrets, are named only.
func (d *decoder) shown(path string) string {
	w, ok := d.at[path]
	switch {
	case !ok || w.node == nil:
		return "the default"
	case w.secret:
		return "the secret"
	case strings.Contains(w.node.text, "${"):
		return "the value of " + clip(w.node.text)
	}
	return quote(w.node.text)
}

func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	g := groupOf(v.Type())
	if k := g.byName[name]; k != nil {
		return v.Field(k.index), true
	}
	if spec := g.spec(v); spec.IsValid() {
		return fieldOf(spec, name)
	}
	return reflect.Value{}, false
}

// inlineTag marks the Spec of a model, whose keys are next to the model's.
const inlineTag = ",inline"

// spec is the Spec of a model; not valid for other groups.
func (g *group) spec(v reflect.Value) reflect.Value {
	for _, k := range g.keys {
		if spec := v.Field(k.index); k.name == "" && !spec.IsNil() {
			return spec.Elem().Elem()
		}
	}
	return reflect.Value{}
}

// keysOf are the keys of groups in alphabetical order, each once.
func keysOf(groups ...reflect.Value) []string {
	var keys []string
	for _, v := range groups {
		g := groupOf(v.Type())
		keys = append(keys, g.names...)
		if spec := g.spec(v); spec.IsValid() {
			keys = append(keys, keysOf(spec)...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%s]", path, quote(key))
	case path == "":
		return key
	}
	return path + "." + key
}
