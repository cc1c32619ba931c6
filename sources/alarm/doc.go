// Package alarm tells people and other programs that alerts opened: by the
// terminal's bell and a notice on the desktop, where there is a screen, by a
// webhook, and by a command.
//
// # One alert, one telling
//
// The engine raises an alert once for each transition, and a group once. Alarm
// takes it without ever blocking and hands it to each outlet that is configured;
// an alert that somebody has snoozed or muted is not told. One that stood already
// when this process began to look is told by webhook and command, marked as found:
// it may have begun while nobody watched. Each outlet is its own goroutine with its
// own queue: a webhook that hangs delays no bell.
//
// # A storm
//
// An outlet tells a few alerts one by one. When more come than its pace allows,
// it waits for its next turn and tells what has come until then as one digest:
// the most pressing of them listed, the others counted. So five hundred alerts in
// a second are a handful of tellings, and no page is lost in another.
//
//	alert  -> queue -> turn to spare, few wait: one alert
//	                   many wait, or no turn:   digest at the next turn
//
// # What is told, and to whom
//
// A webhook is a POST of the JSON of wire.EncodeAlarm to the one host that is
// configured, past any proxy that the environment names: the path of the address
// is its password, and the environment is no place to say who else may read it.
// No redirect is followed, for the same reason. It is tried twice within the time
// limit each, with the same id, by which a receiver knows the second one again.
//
// A command is run by its argv, never by a shell, with the same JSON on its
// standard input and nothing of our secrets in its environment. It ends with its
// first process, or is ended at the time limit, with everything in its process
// group.
//
// What failed is logged once a minute at most for each outlet, and told through
// Options.Failed, so that the screen can show it.
//
// The package must not decide what is worth an alert, and must not touch a
// terminal: what rings is given to it.
package alarm
