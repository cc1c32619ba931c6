package stackdump

import (
	"strconv"
	"strings"
)

// pythonCode tells whose code a Python file is: the standard library stands
// under lib/pythonX.Y, but for the packages that were installed there.
func pythonCode(file string) Code {
	if file == "" || strings.HasPrefix(file, "<frozen ") {
		return Standard
	}
	if strings.Contains(file, "-packages/") || strings.Contains(file, `-packages\`) {
		return User
	}
	if pythonLibrary(file) {
		return Standard
	}
	if file[0] != '/' && file[0] != '<' && !strings.Contains(file, ":") && pythonModule(file) {
		return Standard // py-spy shortens paths
	}
	return User
}

// pythonLibrary reports whether a path leads into lib/pythonX.Y, its zip file
// or, on Windows, Lib below the program's directory.
func pythonLibrary(file string) bool {
	for from := 0; ; {
		i := strings.Index(file[from:], "/python")
		if i < 0 {
			break
		}
		from += i + len("/python")
		rest := strings.TrimLeft(file[from:], "0123456789.t")
		if len(rest) == len(file[from:]) {
			continue
		}
		if strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "zip/") {
			if before := file[:from-len("/python")]; strings.HasSuffix(before, "lib") || strings.HasSuffix(before, "lib64") || strings.HasPrefix(rest, "zip/") {
				return true
			}
		}
	}
	if lower := strings.ToLower(file); strings.Contains(lower, `\lib\`) && strings.Contains(lower, "python") {
		return true
	}
	return strings.Contains(file, "/_pyodide/")
}

// pythonModule reports whether a short path begins with a module of the
// standard library that stands in stacks of waiting threads.
func pythonModule(file string) bool {
	first, _, _ := strings.Cut(strings.TrimSuffix(file, ".py"), "/")
	switch first {
	case "asyncio", "concurrent", "threading", "queue", "selectors", "socket", "socketserver", "ssl", "subprocess",
		"multiprocessing", "http", "urllib", "runpy", "logging", "contextlib", "functools", "importlib", "json", "re",
		"sre_compile", "email", "encodings", "unittest", "tempfile", "shutil", "pathlib", "traceback", "faulthandler", "_pyodide":
		return true
	}
	return false
}

// unescape turns the \xNN, \uNNNN and \UNNNNNNNN of faulthandler into the
// characters that they stand for.
func unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	var b strings.Builder
	for ; i >= 0; i = strings.IndexByte(s, '\\') {
		b.WriteString(s[:i])
		s = s[i:]
		digits := 0
		if len(s) > 1 {
			digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
		}
		if digits > 0 && len(s) >= 2+digits {
			if r, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil {
				b.WriteRune(rune(r)) // one that is none becomes U+FFFD
				s = s[2+digits:]
				continue
			}
		}
		b.WriteByte('\\')
		s = s[1:]
	}
	b.WriteString(s)
	return b.String()
}

// number reads the decimal number that s begins with, and what follows it.
// Numbers of more than nine digits are no lines of a file.
func number(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && i < 10 && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 || i == 10 {
		return 0, s, false
	}
	return n, s[i:], true
}

// hexDigits counts the leading hexadecimal digits of s.
func hexDigits(s string) int {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return i
		}
	}
	return len(s)
}

// head is the first byte of a line, 0 if it has none.
func head(line string) byte {
	if line == "" {
		return 0
	}
	return line[0]
}
