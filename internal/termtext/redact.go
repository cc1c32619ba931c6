package termtext

import "strings"

// redacted stands where a secret was.
const redacted = "***"

// RedactURL removes passwords and tokens from the addresses in text: a single
// URL, a list of them, an address without a scheme, or the text of an error
// that quotes one. It is the one redactor of the program: whatever may hold an
// address passes it before it is shown, logged or kept.
//
// Of "user:password@host" the user name stays; of "token@host" nothing does;
// query parameters keep their name. Addresses that do not parse are the ones
// that errors quote, so it parses none: from the scheme to the last "@" of the
// word is secret, and a word in quotes ends with the quote. Where that hides
// more than it must, so be it.
func RedactURL(text string) string {
	if !strings.ContainsAny(text, "@?") && !strings.Contains(text, "://") {
		return text
	}
	var out strings.Builder
	changed := false
	for rest := text; rest != ""; {
		end := wordEnd(rest)
		word := redactWord(rest[:end])
		changed = changed || word != rest[:end]
		out.WriteString(word)
		rest = rest[end:]
		for rest != "" && (rest[0] <= ' ' || rest[0] == ',') {
			out.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	if !changed {
		return text
	}
	return redactQuotedParts(out.String())
}

// wordEnd is where the word at the start of text ends: at white space, or at
// the comma before another address. Quotes that hold an address belong to it
// with all that is in them.
func wordEnd(text string) int {
	i := 0
	for i < len(text) && text[i] > ' ' {
		switch c := text[i]; {
		case c == '"' || c == '\'' || c == '`':
			if n := closingQuote(text[i+1:], c); n >= 0 && strings.Contains(text[i+1:i+1+n], "://") {
				i += n + 1
			}
		case c == ',' && beginsAddress(text[i+1:]):
			return i
		}
		i++
	}
	return i
}

// closingQuote is the index of the next quote that no backslash escapes, or -1.
func closingQuote(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return -1
}

// beginsAddress reports whether s starts with a scheme.
func beginsAddress(s string) bool {
	s = strings.TrimLeft(s, " ")
	i := 0
	for i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z' || s[i] == '+') {
		i++
	}
	return i > 0 && strings.HasPrefix(s[i:], "://")
}

// redactWord redacts one word, which holds at most one address.
func redactWord(word string) string {
	start := strings.Index(word, "://")
	if start < 0 {
		at := strings.LastIndexByte(word, '@')
		if at < 0 || !strings.Contains(word, ":") {
			return redactQuery(word)
		}
		return redactUser(word[:at]) + redactQuery(word[at:])
	}
	start += len("://")
	scheme, rest := word[:start], word[start:]
	authority := rest
	if n := strings.IndexAny(rest, "/?#"); n >= 0 {
		authority = rest[:n]
	}
	at := strings.LastIndexByte(rest, '@')
	plain := !strings.Contains(authority, "@") && portOnly(authority)
	switch {
	case at < 0 && plain:
		return scheme + redactQuery(rest)
	case at < 0: // a password that lost its host
		user, _, _ := strings.Cut(authority, ":")
		return scheme + user + ":" + redacted
	case plain && strings.IndexByte(rest, '?') >= 0 && strings.IndexByte(rest, '?') < at:
		return scheme + redactQuery(rest)
	}
	return scheme + redactUser(rest[:at]) + redactQuery(rest[at:])
}

// portOnly reports whether what follows the host in an authority can be a port.
func portOnly(authority string) bool {
	if n := strings.LastIndexByte(authority, ']'); n >= 0 {
		authority = authority[n+1:]
	}
	_, port, found := strings.Cut(authority, ":")
	return !found || strings.Trim(port, "0123456789\"'`,;:.)]}") == ""
}

// redactUser keeps the user name of "user:password" if it looks like one.
func redactUser(info string) string {
	user, _, found := strings.Cut(info, ":")
	if !found {
		return redacted
	}
	for i := range len(user) {
		c := user[i]
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return redacted
		}
	}
	return user + ":" + redacted
}

// redactQuery hides the values of secret query parameters.
func redactQuery(s string) string {
	query := strings.IndexByte(s, '?')
	if query < 0 {
		return s
	}
	var out strings.Builder
	out.WriteString(s[:query+1])
	for rest := s[query+1:]; rest != ""; {
		end := strings.IndexAny(rest, "&;#\"'`")
		if end < 0 {
			end = len(rest)
		}
		name, value, found := strings.Cut(rest[:end], "=")
		if found && value != "" && secretName(name) {
			value = redacted
		}
		out.WriteString(name)
		if found {
			out.WriteString("=" + value)
		}
		if end < len(rest) {
			out.WriteByte(rest[end])
			end++
		}
		rest = rest[end:]
	}
	return out.String()
}

// secretName reports whether the value of a query parameter is never shown.
func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range [...]string{"token", "secret", "pass", "pwd", "auth", "key", "jwt", "seed", "sig", "cred"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// redactQuotedParts hides what the errors of net/url quote again out of an
// address that held a secret.
func redactQuotedParts(text string) string {
	for _, phrase := range [...]string{`invalid port "`, `invalid URL escape "`, `invalid character "`} {
		i := strings.Index(text, phrase)
		if i < 0 {
			continue
		}
		i += len(phrase)
		if n := closingQuote(text[i:], '"'); n >= 0 {
			text = text[:i] + redacted + text[i+n:]
		}
	}
	return text
}
