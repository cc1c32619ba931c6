package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	commandText = `{"command_id":"01J","fleet":"SW 1","op":"stop","session_id":"indexer","generation":2,"boot_id":"k3x9","reason":"wedged","issued_by":"ops1@host",` +
		`"at":"2026-11-30T03:12:44.120Z","expires_at":"2026-11-30T03:22:44.120Z"}`
	resultText = `{"command_id":"01J","session_id":"indexer","generation":2,"fate":"effective","detail":"exit status 0 after 1.2 s","by":"run@eu1-02/4700","at":"2026-11-30T03:12:44.120Z"}`
)

func TestCommandsAndResultsReadBack(t *testing.T) {
	c := watchdog.Command{ID: "01J", Fleet: "SW 1", Op: watchdog.OpStop, Session: "indexer", Generation: 2, BootID: "k3x9", Reason: "wedged", IssuedBy: "ops1@host",
		At: someMoment, Expires: someMoment.Add(10 * time.Minute)}
	text, err := EncodeCommand(c)
	if err != nil || string(text) != commandText {
		t.Errorf("%v, got\n%s, want\n%s", err, text, commandText)
	}
	if got, err := DecodeCommand("indexer", text); err != nil || cmp.Diff(c, got) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(c, got))
	}
	r := watchdog.Answer{Command: "01J", Session: "indexer", Generation: 2, Fate: watchdog.FateEffective, Detail: "exit status 0 after 1.2 s", By: "run@eu1-02/4700", At: someMoment}
	text, err = EncodeResult(r)
	if err != nil || string(text) != resultText {
		t.Errorf("%v, got\n%s, want\n%s", err, text, resultText)
	}
	if got, err := DecodeResult("indexer", "01J", text); err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(r, got))
	}
}

func TestHostileCommandsAndResults(t *testing.T) {
	for _, change := range [][2]string{
		{`"01J"`, `"0.1"`}, {`"01J"`, `null`}, {`"indexer"`, `"other"`}, {`"stop"`, `""`}, {`"stop"`, `"st\u200bop"`}, {`"generation":2`, `"generation":-1`},
		{`"expires_at":"2026-11-30T03:22:44.120Z"`, `"expires_at":null`}, {`"SW 1"`, `7`}, {`"op"`, `"op":"kill","op"`},
	} {
		src := strings.Replace(commandText, change[0], change[1], 1)
		if c, err := DecodeCommand("indexer", []byte(src)); err == nil {
			t.Errorf("%s is read as %+v", src, c)
		}
	}
	if c, err := DecodeCommand("indexer", []byte(strings.Replace(commandText, `"stop"`, `"defragment"`, 1))); err != nil || c.Op != "defragment" {
		t.Errorf("an op of a newer version: %+v, %v", c, err)
	}
	for _, change := range [][2]string{{`"01J"`, `"02J"`}, {`"indexer"`, `"other"`}, {`"effective"`, `"fine"`}, {`"effective"`, `null`}} {
		src := strings.Replace(resultText, change[0], change[1], 1)
		if r, err := DecodeResult("indexer", "01J", []byte(src)); err == nil {
			t.Errorf("%s is read as %+v", src, r)
		}
	}
}
