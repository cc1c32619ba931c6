// Package cli is the command line: it reads flags, configuration and
// environment, wires engine, sources, demo and screen together, and gives the
// same answers to people, scripts and CI as text, JSON and exit codes.
//
// It is the only package that knows every other one. It must not judge: what a
// command says of a session comes out of the engine's window, so that ls, get,
// why, check and the screen cannot disagree. It must not spell a format: the
// JSON shapes are internal/wire's. It writes no escape codes except through the
// screen, and nothing from a bus, a file or a flag reaches a terminal uncleaned.
//
// Exit codes are part of the interface and are defined once, in exit.go.
package cli
