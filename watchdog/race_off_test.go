//go:build !race

package watchdog

// racing says that the race detector is built in.
const racing = false
