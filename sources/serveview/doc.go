// Package serveview is the view of a serve over HTTP: the server that offers it
// on a socket or a port, and the client that a screen or a one-shot command
// looks through.
//
// It owns the paths under /v1/ and the spelling of windows in JSON. A client
// asks in words (a filter, an order, a window of rows), never with code; the
// server answers with windows, as a stream or one by one. It must not judge:
// what it passes on is what the engine behind the serve said.
//
//	GET  /v1/about                  who serves, what, and whether it is read-only
//	POST /v1/look                   one window
//	GET  /v1/windows?stream=NAME    windows as server-sent events, for what was asked with
//	POST /v1/ask?stream=NAME        another window for that stream
//	GET  /v1/sessions[?filter=Q]    as ls --json
//	GET  /v1/sessions/ID            as get --json; /why as why --json
//	GET  /v1/events[?id=ID]         as events --json, a line each; &follow=1 goes on
//	GET  /v1/handover[?since=8h]    as handover --json
//	GET  /v1/trial                  on what a trial looks; POST tries other thresholds, in words,
//	                                as server-sent events of which the last one has the result
//	GET  /v1/late[?id=ID]           what came after the end of a session, a line each; &most=N bounds them
//	GET  /v1/registry               how the reaper does, and the latest releases
//	POST /v1/actions                asks for an action: stop, kill, expire, restart, dump
//	GET  /v1/actions                what was asked for, and what became of it
//	POST /v1/release                lets held groups be settled
//	GET  /v1/logs?id=ID&from=N      lines of a supervised child; &most=N bounds them
//	GET  /v1/dumps[?id=ID]          as dumps --json; /v1/dumps/NAME is one, as text
//
// Who may ask is not decided here: the socket's file mode and its directory, or
// the registry's door, stand before it.
package serveview
