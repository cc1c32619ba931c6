package demo

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// plainBeat is what every producer sends. The names are spelled here once
// more, on purpose: a simulated agent is a foreign program and shares no code
// with the reader of its beats.
type plainBeat struct {
	SessionID string   `json:"session_id"`
	State     string   `json:"state"`
	Uptime    int64    `json:"uptime_secs"`
	Credits   *float64 `json:"credits_remaining"`
	Task      *string  `json:"current_task"`
}

type numberedBeat struct {
	plainBeat
	Generation int `json:"generation"`
}

type guardedBeat struct {
	plainBeat
	Generation   *int     `json:"generation"`
	BootID       string   `json:"boot_id"`
	Seq          int64    `json:"seq"`
	Idle         float64  `json:"idle_secs"`
	Interval     float64  `json:"heartbeat_interval_secs"`
	StallTimeout *float64 `json:"stall_timeout_secs"`
	WaitingFor   *string  `json:"waiting_for"`
	WaitingMax   *float64 `json:"waiting_max_secs"`
	LoopLag      float64  `json:"loop_lag_ms"`
	AgentID      string   `json:"agent_id"`
	Host         string   `json:"host"`
	PID          int      `json:"pid"`
	Message      *string  `json:"message"`
	Commands     []string `json:"commands"`
}

// beat is the message in which an agent says a moment. Its times are real:
// speed is how much script passes in a real second.
func (a *Agent) beat(m *Moment, seq int64, speed float64) ([]byte, error) {
	real := func(d time.Duration) float64 {
		return math.Round(d.Seconds()/speed*1000) / 1000
	}
	plain := plainBeat{SessionID: a.ID, State: m.State, Uptime: int64(real(m.Uptime))}
	if !math.IsNaN(m.Credits) {
		plain.Credits = &m.Credits
	}
	if m.Task != "" {
		plain.Task = &m.Task
	}
	switch a.Voice {
	case Plain:
		return json.Marshal(plain)
	case Numbered:
		return json.Marshal(numberedBeat{plainBeat: plain, Generation: m.Run})
	}
	full := guardedBeat{plainBeat: plain, BootID: a.boot(m.Run), Seq: seq,
		Idle: real(m.Idle), Interval: real(a.Interval), LoopLag: real(m.Lag) * 1000,
		AgentID: a.Worker, Host: a.Host, PID: a.pid(m.Run), Commands: a.takes()}
	if m.StallMax > 0 {
		limit := real(m.StallMax)
		full.StallTimeout = &limit
	}
	if m.Wait != "" {
		limit := real(m.WaitMax)
		full.WaitingFor, full.WaitingMax = &m.Wait, &limit
	}
	if m.Message != "" {
		full.Message = &m.Message
	}
	return json.Marshal(full)
}

// pid is the process of an execution.
func (a *Agent) pid(run int) int { return a.PID + run - 1 }

// takes are the words of the commands that an agent carries out; it says so too
// if there are none.
func (a *Agent) takes() []string {
	words := make([]string, len(a.Takes))
	for i, op := range a.Takes {
		words[i] = string(op)
	}
	return words
}

// boot is the boot id of an execution.
func (a *Agent) boot(run int) string {
	return strconv.FormatUint(uint64(a.dice.name("boot").with(uint64(run)))%(1<<30), 36)
}
