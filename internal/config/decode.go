package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
)

// maxFileSize bounds the configuration file: a thousand sessions fit in well.
const maxFileSize = 1 << 20

// decoder walks the nodes of one file and collects what is wrong.
type decoder struct {
	file   string // as shown in faults
	dir    string // of the file: relative paths in it start there
	home   string
	lines  map[string]int  // of each key that stands in the file
	bad    map[string]bool // keys with a fault: rules between keys leave them alone
	faults []Fault
	groups map[string][]string // names of each block, for "belongs under"
}

func newDecoder(file, home string) *decoder {
	d := &decoder{file: file, home: home, lines: map[string]int{}, bad: map[string]bool{}}
	if file != "" {
		d.dir = filepath.Dir(file)
	}
	return d
}

// fault blames a line of the file.
func (d *decoder) fault(line int, key, format string, args ...any) {
	d.bad[key] = true
	d.faults = append(d.faults, Fault{
		Place: d.file + ":" + strconv.Itoa(line), Line: line, Key: key, Text: fmt.Sprintf(format, args...),
	})
}

// faultElsewhere blames a flag or a variable.
func (d *decoder) faultElsewhere(place, format string, args ...any) {
	d.faults = append(d.faults, Fault{Place: place, Text: fmt.Sprintf(format, args...)})
}

// decode reads the bytes of a file into the block.
func (d *decoder) decode(data []byte, root *block) {
	if len(data) > maxFileSize {
		d.fault(1, "", "is larger than %d bytes; this is no configuration file", maxFileSize)
		return
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := reader.Decode(&doc); errors.Is(err, io.EOF) {
		return // an empty file is valid
	} else if err != nil {
		d.syntax(err)
		return
	}
	if err := reader.Decode(&second); err == nil {
		d.fault(max(second.Line, 1), "", "a second document starts here; keep one and remove the line \"---\"")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	if len(doc.Content) == 1 {
		d.value(root, "", doc.Content[0])
	}
}

var syntaxLine = regexp.MustCompile(`^line (\d+): `)

// syntax turns the parser's error into a fault.
func (d *decoder) syntax(err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
	hint := ""
	if strings.Contains(text, "cannot start any token") {
		hint = " (indent with spaces, not with tabs)"
	}
	d.fault(max(line, 1), "", "is not YAML: %s%s; mend this line or one beside it", text, hint)
}

// value decodes one node; aliases end here, so none can be a bomb.
func (d *decoder) value(v value, path string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		d.fault(n.Line, path, "aliases such as *%s are not supported; write the value out", n.Value)
		return
	}
	v.decode(d, path, n)
}

// scalar reports whether n is one, and complains if not.
func (d *decoder) scalar(path string, n *yaml.Node, want string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		return true
	}
	d.fault(n.Line, path, "%s; give %s", describe(n), want)
	return false
}

// describe says what stands there, for faults.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.ShortTag() == "!!null":
		return "has no value"
	}
	return quoted(n.Value) + " is " + kindWord(n.ShortTag())
}

func kindWord(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!str":
		return "text"
	case "!!timestamp":
		return "a date"
	}
	return "of the kind " + quoted(tag)
}

// unknown complains about a key that the block does not have.
func (d *decoder) unknown(key *yaml.Node, path string, names []string) {
	hint := spelling.DidYouMean(key.Value, names)
	if hint == "" {
		if where := d.groups[key.Value]; len(where) > 0 {
			hint = "; it belongs under " + strings.Join(where, " or ")
		} else if len(names) <= 24 {
			hint = "; known here: " + strings.Join(names, ", ")
		}
	}
	where := path
	if where == "" {
		where = "the file"
	}
	d.fault(key.Line, "", "unknown key %s in %s%s", quoted(key.Value), where, hint)
}

// path makes a file name of the file absolute: ~/ is the home directory, other
// relative names start at the directory of the configuration file.
func (d *decoder) path(name string) string {
	switch {
	case name == "" || filepath.IsAbs(name):
		return name
	case name == "~" || strings.HasPrefix(name, "~/"):
		if d.home != "" {
			return filepath.Join(d.home, name[1:])
		}
		return name
	}
	return filepath.Join(d.dir, name)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
