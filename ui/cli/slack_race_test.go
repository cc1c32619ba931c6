//go:build race

package cli_test

// slack is larger under the race detector, which slows the program itself.
const slack = 10

// racing says that the race detector is built in.
const racing = true
