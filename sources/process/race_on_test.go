//go:build race

package process

// racing says that the race detector is built in.
const racing = true
