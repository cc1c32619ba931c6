package stackdump

import "strings"

// rubyDeadlock reads what Ruby says when all of its threads wait, as the message
// of an exception of the main thread, which is the first:
//
//	agent.rb:18:in `join': No live threads left. Deadlock? (fatal)
//	2 threads, 2 sleeps current:0x000055f084574a80 main thread:0x000055f0842aa0f0
//	* #<Thread:0x00007fbf6760fc60 sleep_forever>
//	   rb_thread_t:0x000055f0842aa0f0 native:0x00007fbf67e20740 int:0
//
//	* #<Thread:0x00007fbf640fa340 agent.rb:12 sleep_forever>
//	   rb_thread_t:0x000055f08454a3e0 native:0x00007fbf63eb56c0 int:0 mutex:0x000055f084561180 cond:1
//	   agent.rb:7:in `synchronize'
//		from agent.rb:18:in `wait_all'
type rubyDeadlock struct {
	rubyThreads
	main []Frame // of the exception
}

const rubyAllWait = "No live threads left. Deadlock?"

func startsRubyDeadlock(line string) bool {
	return strings.Contains(line[:min(len(line), 4096)], "': "+rubyAllWait)
}

func newRubyDeadlock(r *reader) parser {
	return &rubyDeadlock{rubyThreads: rubyThreads{r: r, ids: map[string]bool{}}}
}

func (p *rubyDeadlock) take(line string) bool {
	if p.dump == nil {
		place, _, ok := strings.Cut(line, ": "+rubyAllWait)
		if !ok || p.main != nil {
			return false // the report is over
		}
		p.dump = p.r.begin(rubyAllWait)
		p.dump.Deadlock = true
		p.frame(place)
		return true
	}
	text := strings.TrimLeft(line, " ")
	switch {
	case text == "", strings.HasPrefix(text, "depended by: "), strings.Contains(text, " main thread:0x"):
		return true
	case strings.HasPrefix(text, "rb_thread_t:0x"):
		if p.cur != nil && strings.Contains(text, " mutex:0x") {
			p.cur.Lock = true
		}
		return true
	case strings.HasPrefix(text, "\tfrom "):
		return p.frame(text)
	}
	return p.rubyThreads.take(line)
}

// frame keeps one of the main thread's.
func (p *rubyDeadlock) frame(line string) bool {
	f, ok := rubyFrame(line)
	if ok && len(p.main) < mostFrames {
		p.main = append(p.main, f)
	}
	return ok
}

func (p *rubyDeadlock) end(broken bool) {
	if p.finish(); p.dump != nil && len(p.dump.Threads) > 0 && len(p.dump.Threads[0].Frames) == 0 {
		t := &p.dump.Threads[0]
		for _, f := range p.main {
			p.r.frame(t, f)
		}
		p.cur = t
	}
	p.rubyThreads.end(broken)
}
