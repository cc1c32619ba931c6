package stackdump

import "strings"

// family is the language or the tool that a format speaks for.
type family uint8

const (
	nativeFamily family = iota
	pythonFamily
	goFamily
	javaFamily
	scriptFamily
	rubyFamily
)

// short gives the name of a function without package, module or class, as
// people say it; a receiver of Go stays.
func (f family) short(function string) string {
	switch f {
	case goFamily:
		return shortGo(function)
	case javaFamily:
		return function[strings.LastIndexByte(function, '.')+1:]
	case scriptFamily:
		function = strings.TrimPrefix(strings.TrimPrefix(function, "async "), "new ")
		if i := strings.Index(function, " [as "); i > 0 {
			function = function[:i]
		}
		return function[strings.LastIndexByte(function, '.')+1:]
	case rubyFamily:
		return shortRuby(function)
	case nativeFamily:
		return shortNative(function)
	}
	return function
}

// shortGo turns main.(*Dispatcher).loop into (*Dispatcher).loop and
// main.main.func1 into func1.
func shortGo(function string) string {
	pkg := goPackage(function)
	rest := strings.TrimPrefix(function[len(pkg):], ".")
	if rest == "" {
		return function
	}
	if rest[0] == '(' {
		return rest
	}
	for _, part := range []string{".func", ".gowrap", ".deferwrap"} { // a closure goes by its own name
		if i := strings.Index(rest, part); i >= 0 {
			return rest[i+1:]
		}
	}
	return rest
}

// shortRuby takes the class out of `block in Agent#run_step`.
func shortRuby(function string) string {
	prefix := ""
	if i := strings.LastIndex(function, "in "); i >= 0 {
		prefix, function = function[:i+3], function[i+3:]
	}
	if i := strings.LastIndexAny(function, "#."); i >= 0 && i < len(function)-1 {
		function = function[i+1:]
	}
	return prefix + function
}

// shortNative takes the namespaces off a path of C++ or Rust.
func shortNative(function string) string {
	depth := 0
	for i := len(function) - 1; i > 0; i-- {
		switch function[i] {
		case '>', ')', '}':
			depth++
		case '<', '(', '{':
			depth--
		case ':':
			if depth == 0 && function[i-1] == ':' && function[i+1:] != "" {
				return function[i+1:]
			}
		}
	}
	return function
}

// base gives the last element of a path of any system.
func base(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}
