package config

import (
	"fmt"
	"strings"
)

// Value is one setting as "config show" prints it. It never holds a secret.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // as YAML on one line
	Origin string `json:"origin"`
}

// Values lists every setting in the order of the file.
func (c *Config) Values() []Value {
	var list []Value
	(&block{c.Settings.fields()}).leaves("", func(key string, v leaf) {
		shown := v.show()
		if shown == "" {
			return // not set, and without a default
		}
		list = append(list, Value{key, shown, c.Origin(key)})
		switch key { // secrets that came with an address have no key in the file
		case "nats.password_file":
			list = c.appendSecret(list, "nats.password", c.NATS.Password)
		case "nats.token_file":
			list = c.appendSecret(list, "nats.token", c.NATS.Token)
		case "redis.password_file":
			list = c.appendSecret(list, "redis.password", c.Redis.Password)
		}
	})
	return list
}

func (c *Config) appendSecret(list []Value, key string, s Secret) []Value {
	if !s.Set() || c.origins[key] == "" {
		return list
	}
	return append(list, Value{key, hidden, c.origins[key]})
}

// Example is a file in which every key stands, commented out, with its default
// and what it means. It is valid as it is, and so is it with the comment signs
// of the settings ("# " but not "## ") removed: both mean the defaults.
func Example() string {
	var s Settings
	root := &block{s.fields()}
	root.reset()
	var b strings.Builder
	b.WriteString("## Configuration of sessionwatch. Everything has a default: remove the \"# \" before\n" +
		"## what you change, and before the lines above it that it stands under.\n" +
		"## Durations are written as 90s, 5m or 24h. Check with: sessionwatch config check\n")
	for _, f := range root.fields {
		b.WriteString("\n")
		writeExample(&b, "# ", "", f)
	}
	return b.String()
}

// exampler is a container that shows what its elements look like.
type exampler interface {
	element() (label string, b *block)
}

func (m *named[T]) element() (string, *block)  { return "NAME:", sample(m.fields) }
func (l *blocks[T]) element() (string, *block) { return "-", sample(l.fields) }

func (o *optional[T]) element() (string, *block) { return "", sample(o.fields) }

func sample[T any](fields func(*T) []field) *block {
	b := &block{fields(new(T))}
	b.reset()
	return b
}

func writeExample(b *strings.Builder, sign, indent string, f field) {
	switch v := f.value.(type) {
	case *block:
		if f.doc != "" {
			fmt.Fprintf(b, "## %s%s\n", indent, f.doc)
		}
		fmt.Fprintf(b, "%s%s%s:\n", sign, indent, f.name)
		for _, inner := range v.fields {
			writeExample(b, sign, indent+"  ", inner)
		}
	case leaf:
		shown := v.show()
		name := f.name + ": " + shown
		if shown == "" { // optional, and without a default
			name = "# " + f.name + ":"
		}
		fmt.Fprintf(b, "%s%s%-32s # %s\n", sign, indent, name, f.doc)
	case exampler:
		writeElement(b, sign, indent, f, v)
	}
}

// writeElement writes an empty container and, as documentation, one element.
func writeElement(b *strings.Builder, sign, indent string, f field, v exampler) {
	label, element := v.element()
	if label == "" {
		first := element.fields[0]
		line := fmt.Sprintf("%s: {%s: %s}", f.name, first.name, first.value.(leaf).show())
		fmt.Fprintf(b, "%s%s%-32s # %s\n", sign, indent, line, f.doc)
		return
	}
	empty := "[]"
	if label != "-" {
		empty = "{}"
	}
	fmt.Fprintf(b, "%s%s%-32s # %s. One looks like this:\n", sign, indent, f.name+": "+empty, f.doc)
	fmt.Fprintf(b, "## %s  %s\n", indent, label)
	for _, inner := range element.fields {
		writeExample(b, "## ", indent+"    ", inner)
	}
}
