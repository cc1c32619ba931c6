package process

import (
	"bytes"
	"regexp"
)

// anchors are the lines that only a dump has. They tell that one has come and
// where it begins; what it says is for a reader of dumps.
var anchors = regexp.MustCompile(`^(?:` +
	`(?:Current thread|Thread) 0x[0-9a-f]{8,16}(?: \[.*\])? \(most recent call first\):` +
	`|Stack \(most recent call first\):|Fatal Python error: |Timeout \(\d+:\d\d:\d\d|  File ".*", line \d+,? in ` + // Python
	`|Process \d+: .*|Thread \d+ \((?:idle|active)` + // py-spy
	`|SIG[A-Z]+: |panic: |fatal error: |goroutine \d+ (?:gp=\S+ )?.*\[|goroutine profile: total ` + // Go
	`|Full thread dump |WARNING: DATA RACE` +
	`|KEYBOARD_INTERRUPT:|----- Native stack trace -----|\s*"reportVersion"|\s*"frames"` + // Node
	`|Thread \d+ \(Thread 0x|PID \d+ - process|TID \d+:` + // gdb, eu-stack
	`|.*\[BUG\] |(?:main )?#<Thread:0x` + // Ruby
	`)`)

// dumpLines are the lines that continue one.
var dumpLines = regexp.MustCompile(`^(?:\s|$|File |#\d|at |goroutine |created by |[\w./*()\[\]-]+\(.*\)$|-- |\*|c:|r[0-9a-z]+ )`)

// dumpGap is the number of other lines in a row that separate two dumps. Between
// them a program may log.
const dumpGap = 50

// dumpStart gives the offset at which the first dump in text begins; -1 if there
// is none.
func dumpStart(text []byte) int {
	first := -1
	eachLine(text, func(offset int, line []byte) bool {
		if anchors.Match(line) {
			first = offset
		}
		return first < 0
	})
	return first
}

// lastDumpStart gives the offset at which the last dump in text begins; -1 if
// there is none.
func lastDumpStart(text []byte) int {
	last, others := -1, dumpGap+1
	eachLine(text, func(offset int, line []byte) bool {
		switch {
		case anchors.Match(line):
			if others > dumpGap {
				last = offset
			}
			others = 0
		case dumpLines.Match(line) && others <= dumpGap:
			others = 0
		default:
			others++
		}
		return true
	})
	return last
}

// eachLine visits the lines of text without their ends until visit says false.
// Torn and endless lines are looked at by their first 1,024 bytes.
func eachLine(text []byte, visit func(offset int, line []byte) bool) {
	for offset := 0; offset < len(text); {
		end := bytes.IndexByte(text[offset:], '\n')
		next := offset + end + 1
		if end < 0 {
			next = len(text)
		}
		line := bytes.TrimRight(text[offset:next], "\r\n")
		if !visit(offset, line[:min(len(line), 1024)]) {
			return
		}
		offset = next
	}
}
