package wire

// field is a position in the table of known fields.
type field uint8

// The known fields in the order in which we write them. The first five are what
// every producer sends, and the only ones whose value can refuse a beat.
const (
	fieldID field = iota
	fieldState
	fieldUptime
	fieldCredits
	fieldTask
	fieldGeneration
	fieldBootID
	fieldSeq
	fieldIdle
	fieldInterval
	fieldStallTimeout
	fieldWaitingFor
	fieldWaitingMax
	fieldLoopLag
	fieldAgent
	fieldHost
	fieldPID
	fieldMessage
	fieldCommands
	fieldCount // also: unknown
)

// optional reports whether a wrong value costs only itself.
func (f field) optional() bool { return f >= fieldGeneration }

// fieldNames is the one table of their spelling.
var fieldNames = [fieldCount]string{
	"session_id", "state", "uptime_secs", "credits_remaining", "current_task",
	"generation", "boot_id", "seq", "idle_secs", "heartbeat_interval_secs", "stall_timeout_secs",
	"waiting_for", "waiting_max_secs", "loop_lag_ms", "agent_id", "host", "pid", "message", "commands",
}

// fieldOf finds a field by its exact name; fieldCount if it is unknown.
func fieldOf(name []byte) field {
	for f, known := range fieldNames {
		if string(name) == known {
			return field(f)
		}
	}
	return fieldCount
}
