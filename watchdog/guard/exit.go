package guard

// What a supervisor reads in the exit code of a process.
const (
	// ExitRestart (EX_TEMPFAIL) asks to be started again: the process ended
	// itself because it could not go on.
	ExitRestart = 75
	// ExitConfig (EX_CONFIG) asks not to be started again: it would end in the
	// same way until somebody mends the configuration.
	ExitConfig = 78
)
