package config

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is one key of a block: the row from which everything else is derived.
type field struct {
	name  string
	doc   string
	value value
}

// block is a mapping with known keys.
type block struct{ fields []field }

func (b *block) reset() {
	for _, f := range b.fields {
		f.value.reset()
	}
}

func (b *block) decode(d *decoder, path string, n *yaml.Node) {
	if n.ShortTag() == "!!null" && n.Kind == yaml.ScalarNode {
		return // "nats:" above lines that are all commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n.Line, path, "%s; give a mapping with the keys %s", describe(n), strings.Join(b.names(), ", "))
		return
	}
	d.pairs(path, n, func(key, v *yaml.Node) {
		for _, f := range b.fields {
			if f.name == key.Value {
				d.value(f.value, join(path, f.name), v)
				return
			}
		}
		d.unknown(key, path, b.names())
	})
}

func (b *block) leaves(path string, visit func(string, leaf)) {
	for _, f := range b.fields {
		f.value.leaves(join(path, f.name), visit)
	}
}

func (b *block) names() []string {
	names := make([]string, len(b.fields))
	for i, f := range b.fields {
		names[i] = f.name
	}
	return names
}

// pairs visits the keys of a mapping once each.
func (d *decoder) pairs(path string, n *yaml.Node, visit func(key, v *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fault(key.Line, path, "a key %s; keys are words", describe(key))
			continue
		case key.ShortTag() == "!!merge":
			d.fault(key.Line, path, "merging with << is not supported; write the keys out")
			continue
		}
		if line, again := first[key.Value]; again {
			d.fault(key.Line, join(path, key.Value), "stands already on line %d; remove one of them", line)
			continue
		}
		first[key.Value] = key.Line
		d.lines[join(path, key.Value)] = key.Line
		visit(key, v)
	}
}

// optional is a block that may be absent.
type optional[T any] struct {
	dst    **T
	fields func(*T) []field
}

func (o *optional[T]) reset() { *o.dst = nil }

func (o *optional[T]) decode(d *decoder, path string, n *yaml.Node) {
	t := new(T)
	b := &block{o.fields(t)}
	b.reset()
	b.decode(d, path, n)
	*o.dst = t
}

func (o *optional[T]) leaves(path string, visit func(string, leaf)) {
	if *o.dst != nil {
		(&block{o.fields(*o.dst)}).leaves(path, visit)
	}
}

// blocks is a list of blocks.
type blocks[T any] struct {
	dst    *[]T
	fields func(*T) []field
}

func (b *blocks[T]) reset() { *b.dst = nil }

func (b *blocks[T]) decode(d *decoder, path string, n *yaml.Node) {
	d.items(path, n, func(itemPath string, item *yaml.Node) {
		t := new(T)
		one := &block{b.fields(t)}
		one.reset()
		d.lines[itemPath] = item.Line
		d.value(one, itemPath, item)
		*b.dst = append(*b.dst, *t)
	})
}

func (b *blocks[T]) leaves(path string, visit func(string, leaf)) {
	if len(*b.dst) == 0 {
		visit(path, emptyLeaf{b, "[]"})
	}
	for i := range *b.dst {
		(&block{b.fields(&(*b.dst)[i])}).leaves(indexed(path, i), visit)
	}
}

// named is a mapping from names, chosen by people, to blocks.
type named[T any] struct {
	dst    *map[string]*T
	fields func(*T) []field
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (m *named[T]) reset() { *m.dst = map[string]*T{} }

func (m *named[T]) decode(d *decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n.Line, path, "%s; give a mapping of names to blocks", describe(n))
		return
	}
	d.pairs(path, n, func(key, v *yaml.Node) {
		if !goodName.MatchString(key.Value) {
			d.fault(key.Line, path, "%s is not a name; use letters, digits, _ . and -, 64 at most", quoted(key.Value))
			return
		}
		t := new(T)
		b := &block{m.fields(t)}
		b.reset()
		d.value(b, join(path, key.Value), v)
		(*m.dst)[key.Value] = t
	})
}

func (m *named[T]) leaves(path string, visit func(string, leaf)) {
	if len(*m.dst) == 0 {
		visit(path, emptyLeaf{m, "{}"})
	}
	for _, name := range slices.Sorted(maps.Keys(*m.dst)) {
		(&block{m.fields((*m.dst)[name])}).leaves(join(path, name), visit)
	}
}

// emptyLeaf shows a list or mapping that holds nothing.
type emptyLeaf struct {
	value
	text string
}

func (e emptyLeaf) show() string { return e.text }

// items visits the items of a list; null is an empty one.
func (d *decoder) items(path string, n *yaml.Node, visit func(path string, item *yaml.Node)) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind != yaml.SequenceNode:
		d.fault(n.Line, path, "%s; give a list such as [a, b]", describe(n))
	default:
		for i, item := range n.Content {
			visit(indexed(path, i), item)
		}
	}
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// list is a list of scalars of one kind.
type list[T any] struct {
	dst  *[]T
	def  []T
	item func(*T) value // how one is read and shown
}

func (l *list[T]) reset() { *l.dst = slices.Clone(l.def) }

func (l *list[T]) decode(d *decoder, path string, n *yaml.Node) {
	*l.dst = nil
	d.items(path, n, func(itemPath string, item *yaml.Node) {
		var t T
		d.value(l.item(&t), itemPath, item)
		if d.bad[itemPath] {
			d.bad[path] = true
		}
		*l.dst = append(*l.dst, t)
	})
}

func (l *list[T]) leaves(path string, visit func(string, leaf)) { visit(path, l) }

func (l *list[T]) show() string {
	items := make([]string, len(*l.dst))
	for i := range *l.dst {
		items[i] = l.item(&(*l.dst)[i]).(leaf).show()
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func texts(dst *[]string) value {
	return &list[string]{dst: dst, item: func(t *string) value { return text(t, "") }}
}

func numbers(dst *[]int, def []int, lowest, highest int) value {
	return &list[int]{dst: dst, def: def, item: func(n *int) value { return integer(n, 0, lowest, highest) }}
}

// argv is a command with its arguments, never a shell line.
func argv(dst *[]string) value { return &list[string]{dst: dst, item: word} }

// word is any scalar as it is written: an argument 8080 needs no quotes. In a
// command, {pid} is a placeholder and not a mapping.
func word(dst *string) value {
	s := textLike(dst, "", "text", nil).(*scalar[string])
	strict := s.read
	s.read = func(t, _ string) (string, string) { return strict(t, "") }
	return &wordValue{*s}
}

type wordValue struct{ scalar[string] }

func (w *wordValue) decode(d *decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "pid" && n.Content[1].ShortTag() == "!!null" {
		*w.dst = "{pid}"
		return
	}
	w.scalar.decode(d, path, n)
}

func (w *wordValue) leaves(path string, visit func(string, leaf)) { visit(path, w) }

// textMap is a mapping from names to words.
type textMap struct {
	dst    *map[string]string
	hidden bool // the values may be secrets
	check  func(name string) (fault string)
}

func (m *textMap) reset() { *m.dst = map[string]string{} }

func (m *textMap) decode(d *decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n.Line, path, "%s; give a mapping such as {NAME: value}", describe(n))
		return
	}
	d.pairs(path, n, func(key, v *yaml.Node) {
		if fault := m.check(key.Value); fault != "" {
			d.fault(key.Line, path, "%s", fault)
			return
		}
		var t string
		d.value(word(&t), join(path, key.Value), v)
		(*m.dst)[key.Value] = t
	})
}

func (m *textMap) leaves(path string, visit func(string, leaf)) { visit(path, m) }

func (m *textMap) show() string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(*m.dst)) {
		v := "(set)"
		if !m.hidden {
			v = yamlText((*m.dst)[name])
		}
		items = append(items, yamlText(name)+": "+v)
	}
	return "{" + strings.Join(items, ", ") + "}"
}
