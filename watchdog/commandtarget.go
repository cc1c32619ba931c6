package watchdog

import "fmt"

// Meant says whether a command is for the execution that its receiver runs: by
// its number if both know one, else by its boot id. If it is not, why is a
// sentence: another one was meant and is not touched, or it cannot be told, and
// what cannot be told is not ended. A dump harms nobody and is taken then.
//
// Every receiver asks here before it begins with a command. Its zero arguments
// are what it does not know.
func (c *Command) Meant(generation Generation, bootID string) (why string, ok bool) {
	switch {
	case c.Generation != 0 && generation != 0:
		if c.Generation != generation {
			return fmt.Sprintf("#%d was meant, and #%d runs here, which is not touched", c.Generation, generation), false
		}
	case c.BootID != "" && bootID != "":
		if c.BootID != bootID {
			return "another run of it was meant than the one that runs here, which is not touched", false
		}
	case c.Op.Ends():
		return "it names the run that it means neither by the generation nor by the boot id that is known here; nothing was touched", false
	}
	return "", true
}
