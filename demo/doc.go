// Package demo plays a fleet of AI agents that does not exist: they work, wait
// for people, stall, wedge, fall silent and fail, by a script.
//
// It has two halves. The script is pure: what an agent says at a moment is a
// function of the seed and of that moment alone, so that the same seed is the
// same night again. The edge makes the agents real: every one publishes over a
// real NATS client and a real Redis client, in the words of any foreign
// producer, to servers that live in this process on loopback. Whoever watches
// the demo sees nothing that an operator's own fleet would not send.
//
// Over both lies what operators did: a cue turns what the script says of an agent
// into what it says after it was stopped, killed, restarted or settled. Commands
// come over the demo's own servers, as a guard gets them; dumps are those of real
// programs.
//
// The package must not decode a beat or judge an agent: it is on the agents'
// side. It listens on loopback alone, and writes files in a temporary folder that
// Close removes.
//
// # The story
//
// It repeats every minute of script time. Within the first 20 seconds it shows
// every verdict that observation alone can give: running, waiting, quiet,
// stalled, wedged, silent, disputed, completed and error by what agents say or
// cease to say; lost, once whoever watches settles; unknown because the observer's
// way to Redis, which leads through a Gate of the demo, takes nothing for a while.
// What is lost comes back as another execution, one of them late with the old one
// first. Later in each minute many agents of one host fall silent together.
package demo
