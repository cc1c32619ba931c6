package demo

import "time"

// beatStep is how often, in real time, the edge looks who is to beat.
const beatStep = 50 * time.Millisecond

// rota says who beats when: every agent has a slot in the round of its
// interval, so that finding the next ones costs what they cost, and the beats
// of a large fleet are spread over its interval.
type rota struct {
	rounds map[int][][]int32 // slots of a round -> agents of each slot
}

func newRota(agents []Agent, speed float64) *rota {
	r := &rota{rounds: map[int][][]int32{}}
	for i := range agents {
		slots := max(1, int(float64(agents[i].Interval)/speed/float64(beatStep)))
		round := r.rounds[slots]
		if round == nil {
			round = make([][]int32, slots)
			r.rounds[slots] = round
		}
		slot := int(float64(agents[i].Phase)/speed/float64(beatStep)) % slots
		round[slot] = append(round[slot], int32(i))
	}
	return r
}

// due calls beat for everybody whose turn came after step from, up to step to.
// An agent that missed several turns beats once.
func (r *rota) due(from, to int, beat func(i int32)) {
	for slots, round := range r.rounds {
		for step := max(from+1, to-slots+1); step <= to; step++ {
			for _, i := range round[step%slots] {
				beat(i)
			}
		}
	}
}
