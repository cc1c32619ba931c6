// Package ui is the screen: what an operator looks at, and the keys with which
// it is steered.
//
// It owns the drawing of one watchdog.Window, the cursor, filter, sort and
// views, and the key map from which help, footer and palette are generated.
// It owns no truth: a verdict, an age or a count is drawn as the window gave
// it, and an action is only ever asked for.
//
// # How it moves
//
//	Feed.Windows ──> windowArrived ──┐
//	keys, paste, size ───────────────┼─> Model.Update ─> one Ask, errands
//	Host.Open, errands ──> results ──┘        │
//	                                     Model.View: bytes of what is held
//
// Model is the only tea.Model; its parts are plain structs with imperative
// methods. Windows drive the screen: there is no ticker, so a fleet in which
// nothing changes repaints next to nothing.
//
// # What it must not do
//
// Update and View call nothing that may block: a Feed, a Host, the clipboard
// and the title are called from commands, one after another, and their results
// come back as messages that carry the generation that asked. View reads no
// clock. No text reaches the terminal but through painter, which cleans and
// clips it, so that no line is wider than the screen and no control sequence
// comes from data. Outside a question a lower-case letter never touches an
// agent.
package ui
