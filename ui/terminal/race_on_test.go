//go:build race

package terminal_test

// racing says that the race detector is built in.
const racing = true
