// Command sessionwatch shows which long-running AI agents work, which have
// silently stopped, and why.
package main

import (
	"os"

	"github.com/sessionwatch/sessionwatch/ui/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.System()))
}
