//go:build !race

package cli_test

// slack is by how much a test may miss the goal of the fault table: tests run on
// machines that do other things as well, and only tell what is broken. The
// figures that they print, and .ci/soak, tell what is reached.
const slack = 3

// racing says that the race detector is built in.
const racing = false
